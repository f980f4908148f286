"""Fixtures of tests that need a real API server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import API_SERVER, CONTROLLERS, ETCD, SCHEDULER, ControlPlane, started
from tests.controlplane.programs import missing_programs

GIVEN = "PLIANT_TEST_KUBECONFIG"
"""Names a cluster that is there already; then none is started."""


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """A control plane of our own, whose parts a test may stop and start as long as it leaves them running."""
    if os.environ.get(GIVEN):
        pytest.skip(f"{GIVEN} names a cluster, which is not ours to take apart")
    require(ETCD, API_SERVER, CONTROLLERS)
    with started() as up:
        yield up


@pytest.fixture(scope="session")
def real_kubeconfig(request: pytest.FixtureRequest) -> Path:
    """Lets an administrator into a real cluster, the given one or our own."""
    if given := os.environ.get(GIVEN):
        return Path(given)
    own: ControlPlane = request.getfixturevalue("plane")
    return own.kubeconfig


def require(*names: str) -> None:
    """Fail unless these programs are there: to build them within a test would take its time away."""
    if lacking := missing_programs(names):
        pytest.fail(f"not built yet: {', '.join(lacking)}; run scripts/kube build (once, minutes)", pytrace=False)


__all__ = ["GIVEN", "SCHEDULER", "plane", "real_kubeconfig", "require"]
