"""A cluster for the whole session, and a namespace of it for every test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Literal

import pytest

from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.runtime.clock import SystemClock
from tests.controlplane.fixtures import GIVEN
from tests.scenarios.cluster import IMPATIENT, Site, an_ordinary_user, cluster, operator, real_cluster
from tests.scenarios.scene import Scene, a_scene

ELSEWHERE = os.environ.get(GIVEN, "")
"""Names a real cluster that knows our kinds and has no operator: the scenarios then run on it."""

ON_REAL = pytest.param("real", marks=[pytest.mark.real, pytest.mark.on_real])
rather_on_real = pytest.mark.parametrize(
    "ground", [pytest.param("embedded", marks=pytest.mark.deep), ON_REAL], indirect=True
)
"""For what other tests show on the embedded cluster."""

OpenScene = Callable[[], Awaitable[Scene]]


def _site_scope(fixture_name: str, config: pytest.Config) -> Literal["session", "module"]:
    """A cluster of our own serves all; from a given one an operator must leave before another module's comes."""
    return "module" if ELSEWHERE else "session"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what the embedded cluster shows as well to deep runs on the real one."""
    for item in items:
        is_shown = "ground" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("on_real")
        if is_shown and item.get_closest_marker("real"):
            item.add_marker("deep")


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def ground(request: pytest.FixtureRequest) -> str:
    """Which kind of cluster the scenarios run on: `-m real` chooses the real one."""
    return str(request.param)


@pytest.fixture(scope=_site_scope)
def site(ground: str) -> Iterator[Site]:
    """A cluster with an operator."""
    with an_ordinary_user() as user:
        if ground == "embedded":
            with cluster(user, *IMPATIENT) as started:
                yield started
            return
        with real_cluster(user) as found, operator(found) as process:
            process.start()
            yield found


@pytest.fixture
async def client(site: Site) -> AsyncIterator[KubeClient]:
    """A client of the cluster."""
    transport = create_transport(site.kubeconfig, None, SystemClock().now)
    yield KubeClient(transport)
    await transport.aclose()


@pytest.fixture
async def scene(client: KubeClient) -> AsyncIterator[Scene]:
    """A fresh namespace of the cluster."""
    async with a_scene(client) as opened:
        yield opened


@pytest.fixture
async def open_scene(client: KubeClient) -> AsyncIterator[OpenScene]:
    """Opens as many namespaces as a test asks for."""
    async with AsyncExitStack() as stack:

        async def opened() -> Scene:
            return await stack.enter_async_context(a_scene(client))

        yield opened
