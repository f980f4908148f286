"""A control plane for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.fixtures import plane, real_kubeconfig
from tests.controlplane.installed import kubectl, printed

__all__ = ["job_kinds", "plane", "real_kubeconfig"]


@pytest.fixture(scope="session")
def job_kinds(real_kubeconfig: Path) -> None:
    """The definitions of all our kinds, applied once: that takes longer than most tests."""
    kubectl(real_kubeconfig, "apply", "-f", "-", stdin=printed("crds"))
