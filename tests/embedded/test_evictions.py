"""Nodes are marked as they fare, and pods leave marked nodes when they said they would."""

from __future__ import annotations

from datetime import timedelta

from pliant.errors import NotFound
from pliant.kube.resources import NODES, PODS
from tests.embedded.placing import Places, placing, toleration
from tests.virtual_time import on_virtual_time, passing, quiet

AWAY = "node.kubernetes.io/"


async def is_terminating(places: Places, name: str) -> bool:
    """Whether a pod was told to leave; nobody here is there to let it go."""
    await quiet()
    return "deletionTimestamp" in (await places.client.get(PODS, "default", name))["metadata"]


@on_virtual_time
async def test_conditions_become_marks_and_go_again() -> None:
    async with placing() as places:
        await places.node("n", taints=("own:NoSchedule",))
        await places.set_condition("n", "Ready", "False")
        not_ready = {f"{AWAY}not-ready:NoSchedule", f"{AWAY}not-ready:NoExecute"}
        assert await places.taints("n") == {"own:NoSchedule", *not_ready}
        await places.set_condition("n", "Ready", "Unknown")
        unreachable = {f"{AWAY}unreachable:NoSchedule", f"{AWAY}unreachable:NoExecute"}
        assert await places.taints("n") == {"own:NoSchedule", *unreachable}
        await places.set_condition("n", "MemoryPressure", "True")
        await places.set_condition("n", "Ready", "True")
        assert await places.taints("n") == {"own:NoSchedule", f"{AWAY}memory-pressure:NoSchedule"}
        await places.set_condition("n", "MemoryPressure", "False")
        await places.set_condition("n", "GPUUnhealthy", "True")
        assert await places.taints("n") == {"own:NoSchedule"}


@on_virtual_time
async def test_a_cordoned_node_is_marked() -> None:
    async with placing() as places:
        await places.node("n")
        await places.client.patch(NODES, None, "n", {"spec": {"unschedulable": True}})
        await quiet()
        assert await places.taints("n") == {f"{AWAY}unschedulable:NoSchedule"}
        assert await places.pod("p", tolerations=[toleration(f"{AWAY}unschedulable")]) == "n"
        await places.client.patch(NODES, None, "n", {"spec": {"unschedulable": None}})
        await quiet()
        assert await places.taints("n") == set()


@on_virtual_time
async def test_pods_that_do_not_put_up_with_a_mark_leave_at_once() -> None:
    async with placing() as places:
        await places.node("n")
        await places.pod("leaves")
        await places.pod("stays", tolerations=[toleration("broken")])
        await places.set_taints("n", "broken:NoExecute")
        assert await is_terminating(places, "leaves")
        told = (await places.client.get(PODS, "default", "leaves"))["status"]["conditions"]
        assert [(each["type"], each["status"], each["reason"]) for each in told if each["type"] != "PodScheduled"] == [
            ("DisruptionTarget", "True", "DeletionByTaintManager")
        ]
        assert not await is_terminating(places, "stays")


@on_virtual_time
async def test_a_pod_stays_for_as_long_as_it_said() -> None:
    async with placing() as places:
        await places.node("n")
        said = [toleration("broken", tolerationSeconds=seconds) for seconds in (90, 60)]
        await places.pod("p", tolerations=[*said, toleration("broken")])
        await places.set_taints("n", "broken:NoExecute")
        await passing(timedelta(seconds=30))
        await places.set_condition("n", "GPUUnhealthy", "True")  # other news does not begin the time anew
        await passing(timedelta(seconds=29))
        assert not await is_terminating(places, "p")
        await passing(timedelta(seconds=1))
        assert await is_terminating(places, "p")


@on_virtual_time
async def test_a_mark_that_goes_in_time_does_no_harm() -> None:
    async with placing() as places:
        await places.node("n")
        await places.pod("p", tolerations=[toleration("broken", tolerationSeconds=60)])
        for _ in range(2):
            await places.set_taints("n", "broken:NoExecute")
            await passing(timedelta(seconds=40))
            await places.set_taints("n")
        await passing(timedelta(hours=1))
        assert not await is_terminating(places, "p")


@on_virtual_time
async def test_five_minutes_without_its_node_are_enough_for_any_pod() -> None:
    async with placing() as places:
        await places.node("n")
        await places.pod("p")
        await places.set_condition("n", "Ready", "Unknown")
        await passing(timedelta(seconds=299))
        assert not await is_terminating(places, "p")
        await passing(timedelta(seconds=1))
        assert await is_terminating(places, "p")


@on_virtual_time
async def test_marks_go_with_their_node() -> None:
    async with placing() as places:
        await places.node("n")
        await places.pod("p", tolerations=[toleration("broken", tolerationSeconds=10)])
        await places.set_taints("n", "broken:NoExecute")
        await places.client.delete(NODES, None, "n")
        await passing(timedelta(seconds=39))  # then its pods are given up
        assert not await is_terminating(places, "p")


@on_virtual_time
async def test_a_successor_has_time_of_its_own() -> None:
    async with placing() as places:
        await places.node("n")
        patient = [toleration("broken", tolerationSeconds=60)]
        await places.pod("p", tolerations=patient)
        await places.set_taints("n", "broken:NoExecute")
        await passing(timedelta(seconds=50))
        await places.client.delete(PODS, "default", "p", grace_period_seconds=0)
        anyway = toleration("broken", effect="NoSchedule")
        await places.pod("p", nodeName="n", tolerations=[*patient, anyway])
        await passing(timedelta(seconds=50))
        assert not await is_terminating(places, "p")
        await passing(timedelta(seconds=10))
        assert await is_terminating(places, "p")


@on_virtual_time
async def test_a_pod_that_is_gone_is_not_missed() -> None:
    async with placing() as places:
        await places.node("n")
        await places.pod("p", tolerations=[toleration("broken", tolerationSeconds=60)])
        await places.set_taints("n", "broken:NoExecute")
        await places.client.delete(PODS, "default", "p", grace_period_seconds=0)
        await passing(timedelta(hours=1))
        try:
            await places.client.get(PODS, "default", "p")
        except NotFound:
            return
        raise AssertionError("it came back")
