"""Frozen data types shared by everything that makes decisions: jobs, state, observations, actions."""
