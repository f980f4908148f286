"""Startup, liveness and readiness probes, and the handlers that they share with lifecycle hooks."""
