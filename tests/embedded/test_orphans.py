"""Pods of nodes that are no more do not stay for ever."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pliant.errors import NotFound
from pliant.kube.resources import NODES, PODS
from tests.embedded.placing import Places, placing
from tests.virtual_time import on_virtual_time, passing


async def pod_exists(places: Places, name: str) -> bool:
    return any(each["metadata"]["name"] == name for each in (await places.client.list(PODS, "default")).items)


@on_virtual_time
async def test_pods_of_a_deleted_node_are_deleted_after_a_while() -> None:
    async with placing() as places:
        await places.node("n")
        await places.node("other")
        for name, node in (("one", "n"), ("two", "n"), ("three", "other")):
            await places.pod(name, nodeName=node)
        await places.client.delete(NODES, None, "n")
        await passing(timedelta(seconds=39))
        assert await pod_exists(places, "one")
        since = (await places.client.list(PODS, "default")).resource_version
        await passing(timedelta(seconds=1))
        assert [await pod_exists(places, name) for name in ("one", "two", "three")] == [False, False, True]
        watch = places.client.watch(PODS, "default", resource_version=since, fields="metadata.name=one")
        failed, terminating, deleted = [await anext(watch) for _ in range(3)]
        await watch.aclose()
        assert failed.object is not None
        status = failed.object["status"]
        assert (status["phase"], terminating.type, deleted.type) == ("Failed", "MODIFIED", "DELETED")
        told = {each["type"]: each["reason"] for each in status["conditions"] if "reason" in each}
        assert told["DisruptionTarget"] == "DeletionByPodGC"


@on_virtual_time
async def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    async with placing() as places:
        await places.node("n")
        await places.pod("p", nodeName="n")
        await places.client.delete(NODES, None, "n")
        await passing(timedelta(seconds=39))
        await places.node("n")
        await passing(timedelta(minutes=5))
        assert await pod_exists(places, "p")
        # It may go again, and has as much time again.
        await places.client.delete(NODES, None, "n")
        await passing(timedelta(seconds=39))
        assert await pod_exists(places, "p")
        await passing(timedelta(seconds=1))
        assert not await pod_exists(places, "p")


@on_virtual_time
async def test_a_pod_for_a_node_that_never_was_is_deleted_too() -> None:
    async with placing() as places:
        for _ in range(2):
            await places.pod("p", nodeName="nowhere")
            await passing(timedelta(seconds=39))
            assert await pod_exists(places, "p")
            await passing(timedelta(seconds=1))
            with pytest.raises(NotFound):
                await places.client.get(PODS, "default", "p")
