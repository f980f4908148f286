"""Frozen data types that all decisions share: jobs, engine state, observations and actions."""
