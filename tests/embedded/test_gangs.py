"""Pods of a group start together or not at all, and no two groups keep each other waiting."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.embedded.scheduler.pod_groups import COSCHEDULING_POD_GROUPS, VOLCANO_POD_GROUPS
from pliant.kube.resources import NODES, PODS, Resource
from tests.embedded.placing import GPU, Places, placing
from tests.embedded.serving import pod
from tests.virtual_time import on_virtual_time, quiet

DIALECTS = [COSCHEDULING_POD_GROUPS, VOLCANO_POD_GROUPS]


async def create_pod_group(places: Places, name: str, least: int, dialect: Resource = COSCHEDULING_POD_GROUPS) -> None:
    """Make a PodGroup."""
    body = {"apiVersion": dialect.api_version, "kind": "PodGroup", "metadata": {"name": name}}
    await places.client.create(dialect, "default", {**body, "spec": {"minMember": least}})
    await quiet()


async def create_group_pod(
    places: Places, of: str, number: int, dialect: Resource = COSCHEDULING_POD_GROUPS, gpus: int = 1
) -> None:
    """Make a pod of a group."""
    body = pod(f"{of}-{number}")
    if dialect is COSCHEDULING_POD_GROUPS:
        body["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": of}
    else:
        body["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": of}
        body["spec"]["schedulerName"] = "volcano"
    body["spec"]["containers"][0]["resources"] = {"limits": {GPU: str(gpus)}}
    await places.client.create(PODS, "default", body)
    await quiet()


async def pod_nodes(places: Places, of: str, number: int) -> list[str]:
    """The nodes of a group's pods, in turn."""
    return [await places.of(f"{of}-{index}") for index in range(number)]


def gang_of_pod(name: str) -> str:
    """The gang that a pod of these tests belongs to."""
    return name.partition("-")[0]


async def group_phase(places: Places, name: str, dialect: Resource) -> Any:
    """How a group fares."""
    await quiet()
    return (await places.client.get(dialect, "default", name)).get("status", {}).get("phase")


@pytest.mark.parametrize("dialect", DIALECTS, ids=["coscheduling", "volcano"])
@on_virtual_time
async def test_members_wait_for_each_other_and_start_at_once(dialect: Resource) -> None:
    async with placing() as places:
        await places.node("n", gpus=4)
        await create_pod_group(places, "g", 3, dialect)
        assert await group_phase(places, "g", dialect) in ("Scheduling", "Inqueue")
        await create_group_pod(places, "g", 0, dialect)
        await create_group_pod(places, "g", 1, dialect)
        assert await pod_nodes(places, "g", 2) == ["", ""]
        problem = "cannot find enough sibling pods, current pods number: 2, minMember of group: 3"
        assert await places.unschedulable_message("g-0") == f"pod group default/g {problem}"
        await create_group_pod(places, "g", 2, dialect)
        assert await pod_nodes(places, "g", 3) == ["n", "n", "n"]
        assert await group_phase(places, "g", dialect) == "Running"
        await create_group_pod(places, "g", 3, dialect)
        assert await places.of("g-3") == "n"


@on_virtual_time
async def test_without_room_for_all_nobody_starts_and_nobody_else_is_kept_waiting() -> None:
    async with placing() as places:
        await places.node("a", gpus=2)
        await places.node("b", gpus=1)
        await create_pod_group(places, "g", 4)
        for number in range(4):
            await create_group_pod(places, "g", number)
        assert await pod_nodes(places, "g", 4) == [""] * 4
        no_room = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
        words = f"pod group default/g: 3 of 4 pods fit, and they must be scheduled together: {no_room}"
        assert await places.unschedulable_message("g-3") == words
        assert await places.pod("single", gpus=1)
        await places.node("c", gpus=2)
        assert "" not in await pod_nodes(places, "g", 4)


@on_virtual_time
async def test_two_gangs_that_fit_one_at_a_time_run_one_after_the_other() -> None:
    async with placing() as places:
        await places.node("a", gpus=2)
        await places.node("b", gpus=2)
        for name in ("g", "h"):
            await create_pod_group(places, name, 3)
        for number in range(3):
            await create_group_pod(places, "g", number)
            await create_group_pod(places, "h", number)
        assert "" not in await pod_nodes(places, "g", 3)
        assert await pod_nodes(places, "h", 3) == [""] * 3
        for number in range(3):
            await places.client.delete(PODS, "default", f"g-{number}", grace_period_seconds=0)
        assert "" not in await pod_nodes(places, "h", 3)


@on_virtual_time
async def test_members_that_do_not_fit_side_by_side_are_packed() -> None:
    async with placing() as places:
        await places.node("a", gpus=4)
        await places.node("b", gpus=4)
        await create_pod_group(places, "g", 4)
        # Spread out, two small ones would leave no node for a big one.
        for number, gpus in enumerate((2, 2, 2, 2)):
            await create_group_pod(places, "g", number, gpus=gpus)
        assert "" not in await pod_nodes(places, "g", 4)
        for number in range(4):
            await places.client.delete(PODS, "default", f"g-{number}", grace_period_seconds=0)
        await create_pod_group(places, "h", 3)
        for number, gpus in enumerate((2, 2, 4)):
            await create_group_pod(places, "h", number, gpus=gpus)
        assert "" not in await pod_nodes(places, "h", 3)


@given(
    gpus=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    gangs=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=25, deadline=None)
def test_no_gang_is_ever_half_placed_and_each_that_fits_has_its_turn(
    gpus: list[int], gangs: list[tuple[int, int]], order: random.Random
) -> None:
    """Gangs of so many, and some more who may join; their pods come in any order."""
    least = {f"g{number}": size for number, (size, _) in enumerate(gangs)}
    pods = [(f"g{number}", member) for number, (size, more) in enumerate(gangs) for member in range(size + more)]
    order.shuffle(pods)

    async def scheduled_pods(places: Places) -> list[str]:
        listing = await places.client.list(PODS, "default")
        return [raw["metadata"]["name"] for raw in listing.items if raw["spec"].get("nodeName")]

    async def story() -> None:
        async with placing() as places:
            for number, count in enumerate(gpus):
                await places.node(f"n{number}", gpus=count)
            for name, size in least.items():
                await create_pod_group(places, name, size)
            for name, number in pods:
                await create_group_pod(places, name, number)
                counts = Counter(map(gang_of_pod, await scheduled_pods(places)))
                assert all(count >= least[gang] for gang, count in counts.items())
            had_a_turn: set[str] = set()
            while names := await scheduled_pods(places):
                assert len(names) <= sum(gpus)
                had_a_turn |= set(map(gang_of_pod, names))
                for name in names:
                    await places.client.delete(PODS, "default", name, grace_period_seconds=0)
                await quiet()
            assert had_a_turn >= {name for name, size in least.items() if size <= sum(gpus)}

    on_virtual_time(story)()


@on_virtual_time
async def test_one_member_that_is_replaced_does_not_wait_for_the_others() -> None:
    async with placing() as places:
        await places.node("n", gpus=3)
        await create_pod_group(places, "g", 3)
        for number in range(3):
            await create_group_pod(places, "g", number)
        await places.client.delete(PODS, "default", "g-1", grace_period_seconds=0)
        await create_group_pod(places, "g", 1)
        assert await places.of("g-1") == "n"


@on_virtual_time
async def test_members_of_a_group_that_is_not_there_wait_for_it() -> None:
    async with placing() as places:
        await places.node("n", gpus=1)
        await create_group_pod(places, "g", 0)
        assert await places.unschedulable_message("g-0") == "pod group default/g not found."
        await create_pod_group(places, "g", 1)
        assert await places.of("g-0") == "n"


@on_virtual_time
async def test_the_default_scheduler_ignores_the_annotation_of_volcano_for_a_group_that_is_not_there() -> None:
    async with placing() as places:
        await places.node("n", gpus=1)
        for name, scheduler in (("ours", "default-scheduler"), ("theirs", "volcano")):
            body = pod(name)
            body["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
            body["spec"]["schedulerName"] = scheduler
            await places.client.create(PODS, "default", body)
        await quiet()
        assert await places.of("ours") == "n"
        assert await places.unschedulable_message("theirs") == "pod group default/g not found."


@on_virtual_time
async def test_a_gang_is_placed_when_a_node_is_healed() -> None:
    async with placing() as places:
        await places.node("n", gpus=2)
        await places.set_condition("n", "Ready", "Unknown")
        await create_pod_group(places, "g", 2)
        for number in range(2):
            await create_group_pod(places, "g", number)
        assert await pod_nodes(places, "g", 2) == ["", ""]
        await places.set_condition("n", "Ready", "True")
        assert await pod_nodes(places, "g", 2) == ["n", "n"]
        assert await places.client.get(NODES, None, "n")
