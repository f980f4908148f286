"""Which replicas are restarted, how restarts are charged, and their backoff."""
