"""Pliant runs elastic deep-learning jobs on a laptop or on any Kubernetes."""

__version__ = "0.1.0"
