"""Pods that matter more come first, and others make way for them."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.errors import Forbidden, Invalid
from pliant.kube.resources import PODS, Resource
from tests.embedded.placing import Places, placing
from tests.virtual_time import on_virtual_time, quiet

CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)


async def make_class(places: Places, name: str, value: int, **fields: Any) -> None:
    """Make a PriorityClass."""
    body = {"apiVersion": CLASSES.api_version, "kind": "PriorityClass", "metadata": {"name": name}}
    await places.client.create(CLASSES, None, {**body, "value": value, **fields})


async def spec_of(places: Places, name: str) -> dict[str, Any]:
    """What became of the spec of a pod."""
    spec: dict[str, Any] = (await places.client.get(PODS, "default", name))["spec"]
    return spec


async def terminating_pods(places: Places, *names: str) -> list[str]:
    """Which of these pods were told to go."""
    await quiet()
    found = [(name, await places.client.get(PODS, "default", name)) for name in names]
    return [name for name, raw in found if raw["metadata"].get("deletionTimestamp")]


@on_virtual_time
async def test_a_class_becomes_a_number() -> None:
    async with placing() as places:
        await make_class(places, "high", 1000)
        await make_class(places, "calm", 7, preemptionPolicy="Never", globalDefault=True)
        await places.pod("a", priorityClassName="high")
        await places.pod("b")
        await places.pod("c", priorityClassName="system-node-critical")
        spec = await spec_of(places, "a")
        assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "PreemptLowerPriority")
        spec = await spec_of(places, "b")
        assert (spec["priority"], spec["priorityClassName"], spec["preemptionPolicy"]) == (7, "calm", "Never")
        assert (await spec_of(places, "c"))["priority"] == 2_000_001_000


@on_virtual_time
async def test_classes_that_are_not_there_and_numbers_of_ones_own_are_refused() -> None:
    async with placing() as places:
        with pytest.raises(Forbidden, match="no PriorityClass with name none was found"):
            await places.pod("a", priorityClassName="none")
        with pytest.raises(Forbidden, match=r"the integer value of priority \(5\) must not be provided"):
            await places.pod("b", priority=5)
        with pytest.raises(Invalid, match="maximum allowed value"):
            await make_class(places, "huge", 2_000_000_000)
        await make_class(places, "high", 1000)
        with pytest.raises(Invalid, match="may not be changed in an update"):
            await places.client.patch(CLASSES, None, "high", {"value": 2})


@on_virtual_time
async def test_who_matters_more_is_placed_first() -> None:
    async with placing() as places:
        await make_class(places, "high", 1000)
        await places.pod("low", gpus=1)
        await places.pod("high", gpus=1, priorityClassName="high")
        await places.node("n", gpus=1)
        assert (await places.of("high"), await places.of("low")) == ("n", "")


@on_virtual_time
async def test_as_few_as_possible_make_way_and_the_least_important() -> None:
    async with placing() as places:
        await make_class(places, "high", 1000)
        await make_class(places, "middle", 100)
        await places.node("n", gpus=3)
        await places.pod("middle", gpus=1, priorityClassName="middle")
        await places.pod("big", gpus=1)
        await places.pod("small", gpus=1)
        assert not await places.pod("high", gpus=1, priorityClassName="high")
        assert (await places.client.get(PODS, "default", "high"))["status"]["nominatedNodeName"] == "n"
        (gone,) = await terminating_pods(places, "middle", "big", "small")
        assert gone in ("big", "small")
        conditions = (await places.client.get(PODS, "default", gone))["status"]["conditions"]
        (told,) = (each for each in conditions if each["type"] == "DisruptionTarget")
        assert told["reason"] == "PreemptionByScheduler"
        assert not await places.pod("thief", gpus=1)
        await places.client.delete(PODS, "default", gone, grace_period_seconds=0)
        assert (await places.of("high"), await places.of("thief")) == ("n", "")
        assert not await terminating_pods(places, "middle")


@on_virtual_time
async def test_equals_and_those_for_whom_it_would_not_help_stay() -> None:
    async with placing() as places:
        await make_class(places, "high", 1000)
        await make_class(places, "polite", 1000, preemptionPolicy="Never")
        await places.node("n", gpus=2)
        await places.pod("low", gpus=1)
        await places.pod("equal", gpus=1, priorityClassName="high")
        assert not await places.pod("huge", gpus=2, priorityClassName="high")
        assert not await places.pod("polite", gpus=1, priorityClassName="polite")
        assert await terminating_pods(places, "low", "equal") == []


@on_virtual_time
async def test_room_that_was_made_for_one_is_not_for_lesser_ones() -> None:
    async with placing() as places:
        await make_class(places, "high", 1000)
        await places.node("n", gpus=2)
        await places.pod("a", gpus=1)
        await places.pod("b", gpus=1)
        assert not await places.pod("high", gpus=2, priorityClassName="high")
        assert await terminating_pods(places, "a", "b") == ["a", "b"]
        await places.client.delete(PODS, "default", "a", grace_period_seconds=0)
        assert not await places.pod("thief", gpus=1)
        await places.client.delete(PODS, "default", "b", grace_period_seconds=0)
        assert (await places.of("high"), await places.of("thief")) == ("n", "")
