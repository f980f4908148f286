"""Matches nodes against the node selector and the node affinity of a pod."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.kube.objects import ObjectMeta
from pliant.kube.scheduling.types import NodeSelectorRequirement, NodeSelectorTerm, SchedulingPodSpec


def matches_node_affinity(spec: SchedulingPodSpec, node: ObjectMeta) -> bool:
    """Return whether a node has all labels of the node selector and matches a required affinity term."""
    if not spec.node_selector.items() <= node.labels.items():
        return False
    required = spec.node_affinity.required
    return required is None or any(_matches_term(term, node) for term in required.node_selector_terms)


def preference_score(spec: SchedulingPodSpec, node: ObjectMeta) -> int:
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
