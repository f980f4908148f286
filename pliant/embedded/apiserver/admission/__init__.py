"""Defaulting and validation of objects by kind, beyond their schema, and the allocation of cluster IPs."""
