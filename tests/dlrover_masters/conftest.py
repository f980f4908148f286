"""A cluster for the whole session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.runtime.clock import SystemClock
from tests.scenarios.cluster import Site, an_ordinary_user, cluster


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """An embedded cluster with an operator, and room for many small pods."""
    with an_ordinary_user() as user, cluster(user, "--node-cpu", "32", "--node-memory", "64Gi") as started:
        yield started


@pytest.fixture
async def client(site: Site) -> AsyncIterator[KubeClient]:
    """A client of the cluster."""
    transport = create_transport(site.kubeconfig, None, SystemClock().now)
    yield KubeClient(transport)
    await transport.aclose()
