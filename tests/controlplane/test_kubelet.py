from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from pliant.errors import NotFound
from pliant.kube.client import KubeClient
from pliant.kube.codec import WatchEvent
from pliant.kube.resources import PODS
from tests.controlplane.cluster import API_SERVER, CONTROLLERS, ETCD, SCHEDULER, ControlPlane
from tests.controlplane.fixtures import require
from tests.controlplane.populated import populated
from tests.controlplane.test_cluster import client_of

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def inhabited() -> Iterator[ControlPlane]:
    """A control plane with a node that really runs pods."""
    require(ETCD, API_SERVER, CONTROLLERS, SCHEDULER)
    with populated() as plane:
        yield plane


async def test_a_pod_runs_and_its_log_comes_through_the_api_server(inhabited: ControlPlane) -> None:
    container = {"name": "main", "image": "any", "command": ["sh", "-c", "echo hello from $(hostname); exit 7"]}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "short"},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    async with client_of(inhabited.kubeconfig) as client:
        await client.create(PODS, "default", body)
        ended = await until(client, lambda change: phase_of(change) == "Failed")
        [container] = ended["status"]["containerStatuses"]
        assert container["state"]["terminated"]["exitCode"] == 7
        log = b"".join([chunk async for chunk in client.logs("default", "short")])
        assert log == b"hello from short\n"
        await client.delete(PODS, "default", "short")
        with pytest.raises(NotFound):  # what has ended has nothing to wait for
            await client.get(PODS, "default", "short")


def phase_of(change: WatchEvent[dict[str, Any]]) -> str:
    return str(((change.object or {}).get("status") or {}).get("phase"))


async def until(client: KubeClient, condition: Callable[[WatchEvent[dict[str, Any]]], bool]) -> dict[str, Any]:
    """Wait for something to happen to the pod; what it is then."""
    async with asyncio.timeout(20), aclosing(client.watch(PODS, "default", since="0")) as changes:
        async for change in changes:
            if condition(change):
                return change.object or {}
    raise AssertionError("the watch ended")
