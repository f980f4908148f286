"""Sends requests to an API server: HTTP, retries, adaptive write concurrency and request metrics."""
