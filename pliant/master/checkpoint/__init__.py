"""Persists the state of the master, so that its successor continues from it."""
