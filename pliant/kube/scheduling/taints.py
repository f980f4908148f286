"""Taints and tolerations: the taints of node conditions, and how long a pod tolerates a taint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pliant.kube.objects import Node, Taint
from pliant.kube.scheduling.types import Toleration

BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
EVICTING_EFFECTS = frozenset({"NoExecute"})
DISCOURAGING_EFFECTS = frozenset({"PreferNoSchedule"})
TOLERATED_FOREVER_SECONDS = float("inf")
CORDON_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_TAINT_BY_CONDITION = {
    ("Ready", "False"): "not-ready",
    ("Ready", "Unknown"): "unreachable",
    ("MemoryPressure", "True"): "memory-pressure",
    ("DiskPressure", "True"): "disk-pressure",
    ("PIDPressure", "True"): "pid-pressure",
    ("NetworkUnavailable", "True"): "network-unavailable",
}
_EVICTING_TAINTS = ("not-ready", "unreachable")
_CONDITION_TAINT_KEYS = frozenset(f"node.kubernetes.io/{name}" for name in _TAINT_BY_CONDITION.values()) | {
    CORDON_TAINT.key
}


def is_condition_taint(taint_key: str) -> bool:
    """Return whether a taint follows from a node condition, so that a controller sets it."""
    return taint_key in _CONDITION_TAINT_KEYS


def taints_for_node_conditions(node: Node) -> list[Taint]:
    conditions = {(each.type, each.status) for each in node.status.conditions}
    names = [name for condition, name in _TAINT_BY_CONDITION.items() if condition in conditions]
    taints = [Taint(key=f"node.kubernetes.io/{name}", effect="NoSchedule") for name in names]
    taints += [
        Taint(key=f"node.kubernetes.io/{name}", effect="NoExecute") for name in names if name in _EVICTING_TAINTS
    ]
    return [*taints, CORDON_TAINT] if node.spec.unschedulable else taints


def untolerated_taints(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: frozenset[str]
) -> list[Taint]:
    """Return the taints with one of these effects that the tolerations do not cover."""
    return [
        taint
        for taint in taints
        if taint.effect in effects and not any(_tolerates(each, taint) for each in tolerations)
    ]


def tolerated_seconds(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> float:
    """Return how many seconds a pod may stay on a node with these taints: 0 to `TOLERATED_FOREVER_SECONDS`."""
    evicting = [taint for taint in taints if taint.effect in EVICTING_EFFECTS]
    if untolerated_taints(evicting, tolerations, EVICTING_EFFECTS):
        return 0.0
    used = (each for each in tolerations if any(_tolerates(each, taint) for taint in evicting))
    limits = (each.toleration_seconds for each in used if each.toleration_seconds is not None)
    return max(0.0, min(limits, default=TOLERATED_FOREVER_SECONDS))


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value
