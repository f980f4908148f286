"""A cluster that is large enough for every sample, on paper: its nodes and GPUs are simulated."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator

import pytest

from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.runtime.clock import SystemClock
from tests.compatibility.samples import FOLDER
from tests.golden.files import ROOT
from tests.scenarios.cluster import Site, an_ordinary_user, cluster

PROGRAM = {
    "tests/compatibility/probe.py": "probe.py",
    "tests/compatibility/contracts.py": "tests/compatibility/contracts.py",
}
"""The files of the probe, and where pods find them: Python searches the folder of the program for modules."""
NODES = ("--nodes", "8", "--node-cpu", "64", "--node-memory", "256Gi", "--node-gpu", "16")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """An embedded cluster whose pods find the probe."""
    with an_ordinary_user() as user:
        folder = user.home / "workspace"
        for name, place in PROGRAM.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / place)
        mount = ("--mount", f"{folder}:{FOLDER}")
        with cluster(user, "--network", "private", "--autoscale", "off", *NODES, *mount) as started:
            yield started


@pytest.fixture
async def client(site: Site) -> AsyncIterator[KubeClient]:
    """A client of the cluster."""
    transport = create_transport(site.kubeconfig, None, SystemClock().now)
    yield KubeClient(transport)
    await transport.aclose()
