"""What a pod takes up of a node, and which nodes take it: for those who place pods, and those who foresee it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import msgspec

from pliant.kube.objects import Node
from pliant.kube.quantity import parse_quantity
from pliant.kube.scheduling.affinity import matches_node_affinity
from pliant.kube.scheduling.taints import BLOCKING_EFFECTS, CORDON_TAINT, untolerated_taints
from pliant.kube.scheduling.types import SchedulingContainer, SchedulingPodSpec

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
"""Phases in which nothing of a pod runs or ever will."""


def unschedulable_reasons(spec: SchedulingPodSpec, node: Node) -> list[str]:
    """Why a node does not take a pod, or the pod not the node: the first reason, as kube-scheduler tells it."""
    if node.spec.unschedulable and untolerated_taints([CORDON_TAINT], spec.tolerations, BLOCKING_EFFECTS):
        return ["node(s) were unschedulable"]
    if shunned := untolerated_taints(node.spec.taints, spec.tolerations, BLOCKING_EFFECTS):
        return [f"node(s) had untolerated taint {{{shunned[0].key}: {shunned[0].value}}}"]
    if not is_node_ready(node):
        return ["node(s) were not ready"]
    if not matches_node_affinity(spec, node.metadata):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return []


def is_node_ready(node: Node) -> bool:
    """Whether a node says that it can run pods."""
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)


def effective_pod_requests(spec: SchedulingPodSpec) -> dict[str, Fraction]:
    """What a pod takes up: the sum of its containers and sidecars, or of a hungrier moment before they all run."""
    result: dict[str, Fraction] = {"pods": Fraction(1)}
    beside: Counter[str] = Counter()
    for container in spec.init_containers:
        moment = beside.copy()
        moment.update(_container_requests(container))
        if container.restart_policy == "Always":
            beside = moment
        _raise_to_maximum(result, moment)
    for container in spec.containers:
        beside.update(_container_requests(container))
    _raise_to_maximum(result, beside)
    for resource, value in spec.overhead.items():
        result[resource] = result.get(resource, Fraction(0)) + parse_quantity(value)
    return result


def scheduling_spec(pod_template: Mapping[str, object]) -> SchedulingPodSpec:
    """What a pod template asks of nodes."""
    return msgspec.convert(pod_template.get("spec") or {}, SchedulingPodSpec)


def _raise_to_maximum(totals: dict[str, Fraction], requests: Mapping[str, int | Fraction]) -> None:
    for resource, value in requests.items():
        totals[resource] = max(totals.get(resource, Fraction(0)), Fraction(value))


def _container_requests(container: SchedulingContainer) -> dict[str, Fraction]:
    asked = {**container.resources.limits, **container.resources.requests}
    return {resource: parse_quantity(value) for resource, value in asked.items()}
