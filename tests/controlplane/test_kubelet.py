from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from pliant.errors import NotFound
from pliant.kube.client import KubeClient
from pliant.kube.codec import WatchEvent, WatchEventType
from pliant.kube.resources import NODES, PODS
from tests.controlplane.cluster import API_SERVER, CONTROLLERS, ETCD, KWOK, SCHEDULER, ControlPlane
from tests.controlplane.fixtures import require
from tests.controlplane.populated import populated
from tests.controlplane.test_cluster import client_of

pytestmark = [pytest.mark.real, pytest.mark.deep]


@pytest.fixture(scope="module")
def plane_with_node() -> Iterator[ControlPlane]:
    """A control plane with a node that really runs pods."""
    require(ETCD, API_SERVER, CONTROLLERS, SCHEDULER)
    with populated() as plane:
        yield plane


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "any", "command": ["sh", "-c", "echo hello from $(hostname); exit 7"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


async def test_a_pod_runs_and_its_log_comes_through_the_api_server(plane_with_node: ControlPlane) -> None:
    async with client_of(plane_with_node.kubeconfig) as client:
        await client.create(PODS, "default", pod("short"))
        ended = await until_phase(client, "short", "Failed")
        assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
        log = b"".join([chunk async for chunk in client.stream_logs("default", "short")])
        assert log == b"hello from short\n"
        await client.delete(PODS, "default", "short")
        with pytest.raises(NotFound):  # what has ended has nothing to wait for
            await client.get(PODS, "default", "short")


async def test_simulated_nodes_run_pods_and_end_them_as_annotated(plane_with_node: ControlPlane) -> None:
    require(KWOK)
    plane_with_node.start_kwok()
    node = {"metadata": {"name": "far", "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"place": "far"}}}
    async with client_of(plane_with_node.kubeconfig) as client:
        await client.create(NODES, None, node)
        for name, annotations in (("stays", {}), ("ends", {"pliant.test/exit-code": "3"})):
            body = pod(name, annotations=annotations)
            body["spec"]["nodeSelector"] = {"place": "far"}
            await client.create(PODS, "default", body)
        stays = await until_phase(client, "stays", "Running")
        ended = await until_phase(client, "ends", "Failed")
        assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        await client.delete(PODS, "default", "stays")
        await wait_for_change(client, stays, lambda change: change.type is WatchEventType.DELETED)


async def until_phase(client: KubeClient, name: str, phase: str) -> dict[str, Any]:
    found = await client.get(PODS, "default", name)
    if found["status"]["phase"] == phase:
        return found
    return await wait_for_change(
        client, found, lambda change: ((change.object or {}).get("status") or {}).get("phase") == phase
    )


async def wait_for_change(
    client: KubeClient, seen: dict[str, Any], condition: Callable[[WatchEvent[dict[str, Any]]], bool]
) -> dict[str, Any]:
    """Wait for something to happen to a pod that was seen; what it is then."""
    name, since = seen["metadata"]["name"], seen["metadata"]["resourceVersion"]
    changes = client.watch(PODS, "default", resource_version=since, fields=f"metadata.name={name}")
    async with asyncio.timeout(20), aclosing(changes):
        async for change in changes:
            if condition(change):
                return change.object or {}
    raise AssertionError("the watch ended")
