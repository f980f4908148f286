"""Decode and validate specs: field errors, metadata, names, pod templates and quantities."""
