"""Terminal output: tables, colours, logs, progress, pages and data formats."""
