"""A control plane for the tests of this folder."""

from tests.controlplane.fixtures import plane

__all__ = ["plane"]
