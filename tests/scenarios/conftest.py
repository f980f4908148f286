"""A cluster for the whole session, and a namespace of it for every test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import pytest

from pliant.kube.client import KubeClient
from pliant.kube.config import transport_for
from pliant.runtime.clock import SystemClock
from tests.scenarios.cluster import Site, an_ordinary_user, cluster, elsewhere, operator
from tests.scenarios.scene import Scene, a_scene

ELSEWHERE = os.environ.get("PLIANT_TEST_KUBECONFIG", "")
"""Names a cluster that knows our kinds and has no operator: the scenarios then run on it instead."""

OpenScene = Callable[[], Awaitable[Scene]]


def _site_scope(fixture_name: str, config: pytest.Config) -> Literal["session", "module"]:
    """An embedded cluster serves all; elsewhere an operator must leave before another module brings its own."""
    return "module" if ELSEWHERE else "session"


@pytest.fixture(scope=_site_scope)
def site() -> Iterator[Site]:
    """A cluster with an operator."""
    with an_ordinary_user() as user:
        if not ELSEWHERE:
            with cluster(user) as started:
                yield started
            return
        found = elsewhere(Path(ELSEWHERE), user)
        with operator(found) as process:
            process.start()
            yield found


@pytest.fixture
async def client(site: Site) -> AsyncIterator[KubeClient]:
    """A client of the cluster."""
    transport = transport_for(site.kubeconfig, None, SystemClock().now)
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
