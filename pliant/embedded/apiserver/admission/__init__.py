"""Defaults and validation beyond the schema, by kind, and the allocation of cluster IPs."""
