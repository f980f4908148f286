"""Container logs: reading, following, timestamps and termination messages."""
