"""Pods are evicted through the API, one by one or by `kubectl drain`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pliant.errors import NotFound
from pliant.kube.resources import NODES, PODS
from tests.embedded.serving import Served, pod, serving
from tests.embedded.test_kubectl import Kubectl, kubectl, running_pod

__all__ = ["kubectl"]

PATH = "/api/v1/namespaces/default/pods/a/eviction"
NODE: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving() as server:
        await server.client.create(PODS, "default", pod())
        bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "n"}}
        await server.client.create(PODS, "default", bind, subresource="binding", name="a")
        yield server


def eviction(name: str = "a", **options: Any) -> dict[str, Any]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    return {**body, "deleteOptions": options}


async def test_an_evicted_pod_has_its_grace_and_says_why_it_goes(server: Served) -> None:
    reply, status = await server.call("POST", PATH, eviction(gracePeriodSeconds=7))
    assert (reply.status, status["status"]) == (201, "Success")
    left = await server.client.get(PODS, "default", "a")
    assert left["metadata"]["deletionGracePeriodSeconds"] == 7
    (why,) = (each for each in left["status"]["conditions"] if each["type"] == "DisruptionTarget")
    assert (why["status"], why["reason"]) == ("True", "EvictionByEvictionAPI")


async def test_a_finished_pod_goes_at_once(server: Served) -> None:
    await server.client.patch(PODS, "default", "a", {"status": {"phase": "Failed"}}, subresource="status")
    await server.call("POST", PATH, eviction())
    with pytest.raises(NotFound):
        await server.client.get(PODS, "default", "a")


async def test_a_pretended_eviction_or_deletion_keeps_the_pod(server: Served) -> None:
    await server.call("POST", PATH, eviction(dryRun=["All"]))
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
    reply, _ = await server.call("DELETE", PODS.path("default", "a"), options)
    assert reply.status == 200
    assert "deletionTimestamp" not in (await server.client.get(PODS, "default", "a"))["metadata"]


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (eviction(preconditions={"uid": "x"}), 409, "does not match the UID in record"),
        (eviction("b"), 400, "name in URL does not match name in Eviction object"),
        ({"apiVersion": "v1", "kind": "Pod"}, 400, "cannot be handled as a Eviction"),
        (eviction(dryRun=["Some"]), 422, "dryRun: Unsupported value"),
    ],
)
async def test_evictions_that_make_no_sense_are_refused(
    server: Served, body: dict[str, Any], code: int, words: str
) -> None:
    reply, status = await server.call("POST", PATH, body)
    assert reply.status == code
    assert words in status["message"]


async def test_a_node_is_drained_and_taken_back(kubectl: Kubectl, tmp_path: Path) -> None:
    await kubectl.client.create(NODES, None, NODE)
    await running_pod(kubectl)
    assert "declare no controller" in await kubectl("drain", "n", fails=True)
    await kubectl.client.patch(PODS, "default", "p", {"status": {"phase": "Succeeded"}}, subresource="status")
    said = await kubectl("drain", "n", "--force")
    assert "evicting pod default/p" in said
    assert "node/n drained" in said
    assert "SchedulingDisabled" in await kubectl("get", "nodes")
    assert "node/n uncordoned" in await kubectl("uncordon", "n")
    assert "SchedulingDisabled" not in await kubectl("get", "nodes")


async def test_a_node_is_drained_without_evictions_too(kubectl: Kubectl) -> None:
    await kubectl.client.create(NODES, None, NODE)
    await running_pod(kubectl)
    await kubectl.client.patch(PODS, "default", "p", {"status": {"phase": "Succeeded"}}, subresource="status")
    await kubectl("drain", "n", "--force", "--disable-eviction")
    assert 'node "n" deleted' in await kubectl("delete", "node", "n")
    assert "No resources found" in await kubectl("get", "pods,nodes")
