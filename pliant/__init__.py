"""Pliant: a Kubernetes operator for elastic deep-learning jobs, with an embedded cluster for local use."""

__version__ = "0.1.0"
