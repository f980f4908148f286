"""Pods come to nodes that they want and that take them, to those they like better first."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.errors import Invalid
from pliant.kube.resources import NODES, PODS
from tests.embedded.placing import placing, preferred_affinity, required_affinity, requirement, toleration
from tests.virtual_time import on_virtual_time

LABELS = {"zone": "a", "speed": "7"}
MISMATCH = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."


@pytest.mark.parametrize(
    ("key", "operator", "values", "holds"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "In", ["b"], False),
        ("none", "In", ["a"], False),
        ("zone", "NotIn", ["a"], False),
        ("zone", "NotIn", ["b"], True),
        ("none", "NotIn", ["a"], True),
        ("zone", "Exists", [], True),
        ("none", "Exists", [], False),
        ("zone", "DoesNotExist", [], False),
        ("none", "DoesNotExist", [], True),
        ("speed", "Gt", ["6"], True),
        ("speed", "Gt", ["7"], False),
        ("speed", "Lt", ["8"], True),
        ("speed", "Lt", ["7"], False),
        ("zone", "Gt", ["1"], False),
        ("none", "Lt", ["1"], False),
    ],
)
@on_virtual_time
async def test_labels_are_judged(key: str, operator: str, values: list[str], holds: bool) -> None:
    async with placing() as places:
        await places.node("n", labels=LABELS)
        wanted = {"matchExpressions": [requirement(key, operator, *values)]}
        assert bool(await places.pod("p", affinity=required_affinity(wanted))) is holds
        if not holds:
            assert await places.unschedulable_message("p") == MISMATCH


@on_virtual_time
async def test_one_term_is_enough_but_all_of_it() -> None:
    async with placing() as places:
        await places.node("n", labels=LABELS)
        true, false = requirement("zone", "In", "a"), requirement("zone", "In", "b")
        assert await places.pod(
            "one", affinity=required_affinity({"matchExpressions": [false]}, {"matchExpressions": [true]})
        )
        assert not await places.pod("half", affinity=required_affinity({"matchExpressions": [true, false]}))
        assert not await places.pod(
            "selector", nodeSelector={"zone": "b"}, affinity=required_affinity({"matchExpressions": [true]})
        )
        assert not await places.pod("nothing", affinity=required_affinity({}))


@on_virtual_time
async def test_a_node_is_chosen_or_avoided_by_name() -> None:
    async with placing() as places:
        for name in ("a", "b"):
            await places.node(name)
        this = {"matchFields": [requirement("metadata.name", "In", "b")]}
        other = {"matchFields": [requirement("metadata.name", "NotIn", "a")]}
        assert [await places.pod(f"this-{n}", affinity=required_affinity(this)) for n in range(2)] == ["b", "b"]
        assert await places.pod("other", affinity=required_affinity(other)) == "b"


@on_virtual_time
async def test_preferences_add_up_and_come_before_load() -> None:
    async with placing() as places:
        for name in ("a", "b", "c"):
            await places.node(name, labels={"fast": "yes"} if name != "a" else {})
        likes = preferred_affinity(
            fast=(10, {"matchExpressions": [requirement("fast", "Exists")]}),
            name=(1, {"matchFields": [requirement("metadata.name", "NotIn", "b")]}),
            nothing=(50, {}),
        )
        assert [await places.pod(f"p{n}", affinity=likes) for n in range(3)] == ["c", "c", "c"]
        assert await places.pod("plain") == "a"


@on_virtual_time
async def test_an_avoided_node_is_better_than_none() -> None:
    async with placing() as places:
        await places.node("bad")
        avoids = preferred_affinity(bad=(100, {"matchFields": [requirement("metadata.name", "NotIn", "bad")]}))
        assert await places.pod("p", affinity=avoids) == "bad"


@on_virtual_time
async def test_a_discouraging_taint_is_avoided_while_there_is_another_node() -> None:
    async with placing() as places:
        await places.node("a", taints=("slow:PreferNoSchedule",))
        await places.node("b")
        assert [await places.pod(f"p{n}") for n in range(2)] == ["b", "b"]
        assert await places.pod("content", tolerations=[toleration("slow")]) == "a"
        await places.client.patch(NODES, None, "b", {"spec": {"unschedulable": True}})
        assert await places.pod("last") == "a"


@on_virtual_time
async def test_every_node_tells_its_first_reason() -> None:
    async with placing() as places:
        await places.node("cordoned")
        await places.client.patch(NODES, None, "cordoned", {"spec": {"unschedulable": True}})
        await places.node("marked", taints=("gpu=broken:NoSchedule",))
        await places.node("silent")
        await places.set_condition("silent", "Ready", "Unknown")
        await places.node("other")
        assert not await places.pod("p", nodeSelector={"no": "such"}, gpus=1)
        assert await places.unschedulable_message("p") == (
            "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
            "1 node(s) had untolerated taint {gpu: broken}, "
            "1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }, "
            "1 node(s) were unschedulable."
        )


@on_virtual_time
async def test_gpus_are_given_out_until_there_are_none() -> None:
    async with placing() as places:
        await places.node("n", gpus=3)
        assert await places.pod("a", gpus=2) == "n"
        assert not await places.pod("b", gpus=2)
        assert await places.unschedulable_message("b") == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
        assert await places.pod("c", gpus=1) == "n"
        await places.client.delete(PODS, "default", "a", grace_period_seconds=0)
        assert await places.of("b") == "n"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@on_virtual_time
async def test_a_finished_pod_makes_room_though_it_is_not_deleted(phase: str) -> None:
    async with placing() as places:
        await places.node("n", gpus=1)
        assert await places.pod("first", gpus=1) == "n"
        assert not await places.pod("second", gpus=1)
        await places.client.patch(PODS, "default", "first", {"status": {"phase": phase}}, subresource="status")
        assert await places.of("second") == "n"


@on_virtual_time
async def test_a_pod_that_waits_is_placed_when_a_node_is_ready_healed_or_new() -> None:
    async with placing() as places:
        await places.node("n")
        await places.set_condition("n", "Ready", "False")
        assert not await places.pod("first")
        await places.set_condition("n", "Ready", "True")
        assert await places.of("first") == "n"
        await places.set_taints("n", "gpu=broken:NoSchedule")
        assert not await places.pod("second")
        await places.set_taints("n")
        assert await places.of("second") == "n"
        await places.client.delete(NODES, None, "n")
        assert not await places.pod("third")
        assert await places.unschedulable_message("third") == "no nodes available to schedule pods"
        await places.node("n")
        assert await places.of("third") == "n"


@pytest.mark.parametrize("empty", [None, {}, {"nodeAffinity": None}, {"nodeAffinity": {}}, {"podAffinity": {}}])
@on_virtual_time
async def test_wishes_may_be_empty(empty: dict[str, Any] | None) -> None:
    async with placing() as places:
        await places.node("n")
        assert await places.pod("p", affinity=empty) == "n"


@on_virtual_time
async def test_a_pod_with_gates_waits_although_a_node_is_free() -> None:
    async with placing() as places:
        await places.node("n")
        assert not await places.pod("p", schedulingGates=[{"name": "example.org/gate"}])


@on_virtual_time
async def test_wishes_that_make_no_sense_are_refused() -> None:
    async with placing() as places:
        wrong = [requirement("a", "Like", "b"), requirement("a", "In")]
        with pytest.raises(Invalid) as refused:
            await places.pod("p", affinity=required_affinity({"matchExpressions": wrong}))
        path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
        assert [cause["field"] for cause in refused.value.details["causes"]] == [
            f"{path}.matchExpressions[0].operator",
            f"{path}.matchExpressions[1].values",
        ]
