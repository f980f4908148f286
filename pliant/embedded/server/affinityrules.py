"""What the server refuses of the nodes a pod asks for, in the words of the real one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.embedded.schema import Problem, Reason
from pliant.embedded.storage.records import Object

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HEAVIEST = 100
_NO_OPERATOR = "not a valid selector operator"


def affinity_problems(spec: Object) -> Iterator[Problem]:
    """Everything wrong with the node affinity of a pod."""
    wishes = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    path = "spec.affinity.nodeAffinity"
    if required := wishes.get(_REQUIRED):
        place = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        terms = required.get("nodeSelectorTerms") or ()
        if not terms:
            yield Problem.of(place, Reason.REQUIRED, None, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _term_problems(term, f"{place}[{index}]")
    for index, each in enumerate(wishes.get(_PREFERRED) or ()):
        place, weight = f"{path}.{_PREFERRED}[{index}]", each.get("weight") or 0
        if not 1 <= weight <= _HEAVIEST:
            yield Problem.of(f"{place}.weight", Reason.INVALID, weight, "must be in the range 1-100")
        yield from _term_problems(each.get("preference") or {}, f"{place}.preference")


def _term_problems(term: Object, path: str) -> Iterator[Problem]:
    for index, each in enumerate(term.get("matchExpressions") or ()):
        yield from _label_problems(each, f"{path}.matchExpressions[{index}]")
    for index, each in enumerate(term.get("matchFields") or ()):
        yield from _field_problems(each, f"{path}.matchFields[{index}]")


def _label_problems(requirement: Object, path: str) -> Iterator[Problem]:
    values: list[Any] = requirement.get("values") or []
    match requirement.get("operator"):
        case "In" | "NotIn":
            if not values:
                words = "must be specified when `operator` is 'In' or 'NotIn'"
                yield Problem.of(f"{path}.values", Reason.REQUIRED, None, words)
        case "Exists" | "DoesNotExist":
            if values:
                words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield Problem.of(f"{path}.values", Reason.FORBIDDEN, None, words)
        case "Gt" | "Lt":
            if len(values) != 1:
                words = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield Problem.of(f"{path}.values", Reason.REQUIRED, None, words)
        case other:
            yield Problem.of(f"{path}.operator", Reason.INVALID, other, _NO_OPERATOR)


def _field_problems(requirement: Object, path: str) -> Iterator[Problem]:
    if requirement.get("operator") not in ("In", "NotIn"):
        yield Problem.of(f"{path}.operator", Reason.INVALID, requirement.get("operator"), _NO_OPERATOR)
    elif len(requirement.get("values") or ()) != 1:
        words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield Problem.of(f"{path}.values", Reason.REQUIRED, None, words)
    if requirement.get("key") != "metadata.name":
        yield Problem.of(f"{path}.key", Reason.INVALID, requirement.get("key"), "not a valid field selector key")
