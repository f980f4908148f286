"""Hostile objects and requests, generated from the schemas: nothing breaks, and nobody else waits."""
