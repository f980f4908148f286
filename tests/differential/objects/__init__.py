"""Valid objects of every kind, and mutations that make them invalid."""
