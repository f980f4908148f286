"""A cluster for the tests of the Python API: the fixtures that users get."""

from __future__ import annotations

from pliant.testing import pliant_cluster, pliant_cluster_options, pliant_session_cluster

__all__ = ["pliant_cluster", "pliant_cluster_options", "pliant_session_cluster"]
