"""Nodes that are about to lose their pods, as labels, taints and cordons tell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pliant.kube.node_drain import drain_state, is_draining, is_spot
from pliant.kube.objects import Node
from pliant.kube.scheduling.types import Toleration

FOR_EVER = Toleration(key="maintenance", operator="Exists")
FOR_A_WHILE = Toleration(key="maintenance", operator="Exists", toleration_seconds=300)


def node(*taints: str, labels: dict[str, str] | None = None, **spec: Any) -> Node:
    parsed = [dict(zip(("key", "effect"), taint.split(":"), strict=True)) for taint in taints]
    raw = {"metadata": {"name": "n", "labels": labels or {}}, "spec": {"taints": parsed, **spec}}
    return msgspec.convert(raw, Node)


@pytest.mark.parametrize(
    ("drained", "tolerations", "expected"),
    [
        (node(), (), False),
        (node(unschedulable=True), (FOR_EVER,), True),
        (node("maintenance:NoExecute"), (), True),
        (node("maintenance:NoExecute"), (FOR_A_WHILE,), True),
        (node("maintenance:NoExecute"), (FOR_EVER,), False),
        (node("maintenance:NoSchedule"), (), False),
        (node("ToBeDeletedByClusterAutoscaler:NoSchedule"), (), True),
        (node("karpenter.sh/disrupted:NoSchedule"), (), True),
        (node("node.kubernetes.io/unreachable:NoExecute"), (), False),
        (node("node.kubernetes.io/out-of-service:NoExecute"), (), False),
    ],
)
def test_a_node_is_drained_by_cordons_and_by_taints_that_evict_the_pod(
    drained: Node, tolerations: tuple[Toleration, ...], expected: bool
) -> None:
    assert is_draining(drained, tolerations) is expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"karpenter.sh/capacity-type": "spot"}, True),
        ({"karpenter.sh/capacity-type": "on-demand"}, False),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, True),
        ({"cloud.google.com/gke-spot": "true"}, True),
        ({"cloud.google.com/gke-preemptible": "true"}, True),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, True),
        ({"node-lifecycle": "spot"}, True),
        ({}, False),
    ],
)
def test_a_label_of_the_provider_tells_a_spot_node(labels: dict[str, str], expected: bool) -> None:
    assert is_spot(node(labels=labels)) is expected


def test_taints_that_drain_nothing_do_not_change_the_state() -> None:
    assert drain_state(node("gpu:NoSchedule", "node.kubernetes.io/unreachable:NoExecute")) == drain_state(node())
    assert drain_state(node("maintenance:NoExecute")) != drain_state(node())
    assert drain_state(node(unschedulable=True)) != drain_state(node())
