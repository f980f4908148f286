"""Controller runtime: clock, work queue, backoff, reconcile loop, logging, metrics and HTTP endpoints."""
