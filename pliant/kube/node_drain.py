"""Nodes that are about to lose their pods: drained, scaled down or reclaimed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from pliant.kube.objects import Node
from pliant.kube.scheduling.taints import (
    EVICTING_EFFECTS,
    TOLERATED_FOREVER_SECONDS,
    is_condition_taint,
    tolerated_seconds,
)
from pliant.kube.scheduling.types import Toleration

_FAULT_TAINT_KEYS = frozenset({"node.kubernetes.io/out-of-service"})
"""Taints of nodes that do not run any more: nothing on them can save its state."""
_REMOVAL_TAINT_KEYS = frozenset({
    "ToBeDeletedByClusterAutoscaler", "aws-node-termination-handler/asg-lifecycle-termination",
    "aws-node-termination-handler/scheduled-maintenance", "aws-node-termination-handler/spot-itn",
    "cloud.google.com/impending-node-termination", "karpenter.sh/disrupted", "karpenter.sh/disruption",
})  # fmt: skip
"""Taints by which autoscalers and providers announce that they remove a node, whatever their effect."""
_SPOT_LABELS = (
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
    ("node-lifecycle", "spot"),
)


def is_draining(node: Node, tolerations: Sequence[Toleration]) -> bool:
    """Return whether a node is cordoned or announced to be removed, or has a taint that is going to evict the pod.

    Taints that follow from the condition of the node are faults instead.
    """
    if not node.spec.taints:
        return node.spec.unschedulable
    if node.spec.unschedulable or any(taint.key in _REMOVAL_TAINT_KEYS for taint in node.spec.taints):
        return True
    evicting = [taint for taint in node.spec.taints if taint.effect in EVICTING_EFFECTS and not _is_fault(taint.key)]
    return tolerated_seconds(evicting, tolerations) < TOLERATED_FOREVER_SECONDS


def is_spot(node: Node) -> bool:
    """Return whether the provider may reclaim a node at any time."""
    return any(node.metadata.labels.get(label) == value for label, value in _SPOT_LABELS)


def drain_state(node: Node) -> Hashable:
    """Return what `is_draining` and `is_spot` depend on; heartbeats do not change it."""
    taints = tuple(
        taint
        for taint in node.spec.taints
        if taint.key in _REMOVAL_TAINT_KEYS or (taint.effect in EVICTING_EFFECTS and not _is_fault(taint.key))
    )
    return node.spec.unschedulable, taints, is_spot(node)


def _is_fault(taint_key: str) -> bool:
    return is_condition_taint(taint_key) or taint_key in _FAULT_TAINT_KEYS
