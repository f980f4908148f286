"""What a pod takes up of a node, and which nodes take it: for those who place pods, and those who foresee it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import msgspec

from pliant.kube.affinity import is_wanted
from pliant.kube.amounts import amount
from pliant.kube.objects import Node
from pliant.kube.taints import CORDONED, KEEPS_OUT, untolerated
from pliant.kube.wanting import AskingContainer, AskingSpec

FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases in which nothing of a pod runs or ever will."""


def refusal(spec: AskingSpec, node: Node) -> list[str]:
    """Why a node does not take a pod, or the pod not the node: the first reason, as kube-scheduler tells it."""
    if node.spec.unschedulable and untolerated([CORDONED], spec.tolerations, KEEPS_OUT):
        return ["node(s) were unschedulable"]
    if shunned := untolerated(node.spec.taints, spec.tolerations, KEEPS_OUT):
        return [f"node(s) had untolerated taint {{{shunned[0].key}: {shunned[0].value}}}"]
    if not is_ready(node):
        return ["node(s) were not ready"]
    if not is_wanted(spec, node.metadata):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return []


def is_ready(node: Node) -> bool:
    """Whether a node says that it can run pods."""
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)


def needs_of(spec: AskingSpec) -> dict[str, Fraction]:
    """What a pod takes up: the sum of its containers and sidecars, or of a hungrier moment before they all run."""
    result: dict[str, Fraction] = {"pods": Fraction(1)}
    beside: Counter[str] = Counter()
    for container in spec.init_containers:
        moment = beside.copy()
        moment.update(_requests(container))
        if container.restart_policy == "Always":
            beside = moment
        _raise(result, moment)
    for container in spec.containers:
        beside.update(_requests(container))
    _raise(result, beside)
    for resource, value in spec.overhead.items():
        result[resource] = result.get(resource, Fraction(0)) + amount(value)
    return result


def spec_in(template: Mapping[str, object]) -> AskingSpec:
    """What a pod template asks of nodes."""
    return msgspec.convert(template.get("spec") or {}, AskingSpec)


def _raise(result: dict[str, Fraction], moment: Mapping[str, int | Fraction]) -> None:
    for resource, value in moment.items():
        result[resource] = max(result.get(resource, Fraction(0)), Fraction(value))


def _requests(container: AskingContainer) -> dict[str, Fraction]:
    asked = {**container.resources.limits, **container.resources.requests}
    return {resource: amount(value) for resource, value in asked.items()}
