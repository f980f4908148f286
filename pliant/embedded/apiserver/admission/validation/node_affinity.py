"""Validation of the node affinity of a pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pliant.embedded.apiserver.admission.validation.names import validate_name, validate_qualified_name
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field, required_field
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import label_value_problem
from pliant.embedded.storage.stored_objects import Object

_REQUIRED_DURING_SCHEDULING: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_DURING_SCHEDULING: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_INVALID_OPERATOR_MESSAGE: Final = "not a valid selector operator"


def validate_node_affinity(spec: Object) -> Iterator[FieldError]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    if required := affinity.get(_REQUIRED_DURING_SCHEDULING):
        path = f"spec.affinity.nodeAffinity.{_REQUIRED_DURING_SCHEDULING}.nodeSelectorTerms"
        terms = required.get("nodeSelectorTerms") or ()
        if not terms:
            yield required_field(path, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _validate_node_selector_term(term, f"{path}[{index}]")
    for index, preferred in enumerate(affinity.get(_PREFERRED_DURING_SCHEDULING) or ()):
        path = f"spec.affinity.nodeAffinity.{_PREFERRED_DURING_SCHEDULING}[{index}]"
        weight = preferred.get("weight") or 0
        if not 1 <= weight <= 100:
            yield invalid_field(f"{path}.weight", weight, "must be in the range 1-100")
        yield from _validate_node_selector_term(preferred.get("preference") or {}, f"{path}.preference")


def _validate_node_selector_term(term: Object, path: str) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        yield from _validate_match_expression(requirement, f"{path}.matchExpressions[{index}]")
    for index, requirement in enumerate(term.get("matchFields") or ()):
        yield from _validate_match_field(requirement, f"{path}.matchFields[{index}]")


def _validate_match_expression(requirement: Object, path: str) -> Iterator[FieldError]:
    values: list[Any] = requirement.get("values") or []
    match requirement.get("operator"):
        case "In" | "NotIn":
            if not values:
                yield required_field(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden_field(f"{path}.values", detail)
        case "Gt" | "Lt":
            if len(values) != 1:
                yield required_field(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case other:
            yield invalid_field(f"{path}.operator", other, _INVALID_OPERATOR_MESSAGE)
    yield from validate_qualified_name(f"{path}.key", requirement.get("key") or "")
    for index, value in enumerate(values):
        if problem := label_value_problem(value):
            yield invalid_field(f"{path}.values[{index}]", value, problem)


def _validate_match_field(requirement: Object, path: str) -> Iterator[FieldError]:
    if requirement.get("operator") not in ("In", "NotIn"):
        yield invalid_field(f"{path}.operator", requirement.get("operator"), _INVALID_OPERATOR_MESSAGE)
    elif len(requirement.get("values") or ()) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required_field(f"{path}.values", detail)
    if requirement.get("key") != "metadata.name":
        yield invalid_field(f"{path}.key", requirement.get("key"), "not a valid field selector key")
        return
    for index, value in enumerate(requirement.get("values") or ()):
        yield from validate_name(f"{path}.values[{index}]", value)
