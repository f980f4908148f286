"""Validation of parts of a pod that few pods have."""
