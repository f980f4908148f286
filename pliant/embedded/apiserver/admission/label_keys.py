"""Adds the labels of a new pod that its affinities and spread constraints name to their selectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pliant.embedded.storage.stored_objects import Object


def merge_label_keys(pod: Object) -> None:
    """Add an expression for each key of `matchLabelKeys` and `mismatchLabelKeys` that the pod has as a label."""
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    if "affinity" not in spec and "topologySpreadConstraints" not in spec:
        return
    for term in (*_iterate_affinity_terms(spec), *(spec.get("topologySpreadConstraints") or ())):
        selector = term.get("labelSelector")
        if selector is not None:
            _add_expressions(selector, term.get("matchLabelKeys") or (), "In", labels)
            _add_expressions(selector, term.get("mismatchLabelKeys") or (), "NotIn", labels)


def _iterate_affinity_terms(spec: Object) -> Iterator[Object]:
    for field in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(field) or {}
        yield from affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}


def _add_expressions(selector: Object, keys: Sequence[str], operator: str, labels: Mapping[str, str]) -> None:
    for key in keys:
        if key in labels:
            expression = {"key": key, "operator": operator, "values": [labels[key]]}
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), expression]
