"""The `pliant` command line."""
