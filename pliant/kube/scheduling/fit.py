"""Computes the resource requests of a pod and whether a node accepts and suits it, for scheduling and planning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import msgspec

from pliant.kube.objects import Node, ObjectMeta
from pliant.kube.scheduling.taints import BLOCKING_EFFECTS, CORDON_TAINT, untolerated_taints
from pliant.kube.scheduling.types import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    SchedulingContainer,
    SchedulingPodSpec,
)
from pliant.schemas.quantity import parse_quantity

TERMINAL_POD_PHASES = frozenset({"Succeeded", "Failed"})  # a pod in one of these phases uses no resources


def matches_selector_and_affinity(spec: SchedulingPodSpec, node: ObjectMeta) -> bool:
    """Return whether a node has all labels of the node selector and matches a required affinity term."""
    if not spec.node_selector.items() <= node.labels.items():
        return False
    required = spec.node_affinity.required
    return required is None or any(_matches_term(term, node) for term in required.node_selector_terms)


def preferred_affinity_score(spec: SchedulingPodSpec, node: ObjectMeta) -> int:
    """Return the sum of the weights of the preferred terms that a node matches."""
    return sum(each.weight for each in spec.node_affinity.preferred if _matches_term(each.preference, node))


def _matches_term(term: NodeSelectorTerm, node: ObjectMeta) -> bool:
    """Return whether a node matches all of a term; an empty term matches no node, as in Kubernetes."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(_matches_requirement(each, node.labels) for each in term.match_expressions) and all(
        _matches_requirement(each, {"metadata.name": node.name}) for each in term.match_fields
    )


def _matches_requirement(requirement: NodeSelectorRequirement, values: Mapping[str, str]) -> bool:
    value = values.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares_as_integer(requirement, value)
    return False


def _compares_as_integer(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    try:
        number, (bound,) = int(value or ""), map(int, requirement.values)
    except ValueError:
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def non_resource_rejections(spec: SchedulingPodSpec, node: Node) -> list[str]:
    """Return why a node does not accept a pod, in the words of kube-scheduler; at most the first reason."""
    if node.spec.unschedulable and untolerated_taints([CORDON_TAINT], spec.tolerations, BLOCKING_EFFECTS):
        return ["node(s) were unschedulable"]
    if untolerated := untolerated_taints(node.spec.taints, spec.tolerations, BLOCKING_EFFECTS):
        return [f"node(s) had untolerated taint {{{untolerated[0].key}: {untolerated[0].value}}}"]
    if not is_node_ready(node):
        return ["node(s) were not ready"]
    if not matches_selector_and_affinity(spec, node.metadata):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return []


def is_node_ready(node: Node) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)


def effective_pod_requests(spec: SchedulingPodSpec) -> dict[str, Fraction]:
    """Return the requests of a pod: the maximum over each init container's run and the run of the main containers."""
    result: dict[str, Fraction] = {"pods": Fraction(1)}
    running: Counter[str] = Counter()
    for container in spec.init_containers:
        with_container = running.copy()
        with_container.update(_container_requests(container))
        if container.restart_policy == "Always":
            running = with_container
        _raise_to_maximum(result, with_container)
    for container in spec.containers:
        running.update(_container_requests(container))
    _raise_to_maximum(result, running)
    for resource, value in spec.overhead.items():
        result[resource] = result.get(resource, Fraction(0)) + parse_quantity(value)
    return result


def parse_scheduling_spec(pod_template: Mapping[str, object]) -> SchedulingPodSpec:
    return msgspec.convert(pod_template.get("spec") or {}, SchedulingPodSpec)


def _raise_to_maximum(totals: dict[str, Fraction], requests: Mapping[str, int | Fraction]) -> None:
    for resource, value in requests.items():
        totals[resource] = max(totals.get(resource, Fraction(0)), Fraction(value))


def _container_requests(container: SchedulingContainer) -> dict[str, Fraction]:
    requests = {**container.resources.limits, **container.resources.requests}
    return {resource: parse_quantity(value) for resource, value in requests.items()}
