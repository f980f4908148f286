"""A control plane for the tests of this folder."""

from tests.controlplane.fixtures import plane, real_kubeconfig

__all__ = ["plane", "real_kubeconfig"]
