"""Validation of ResourceQuotas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pliant.embedded.apiserver.http.errors import invalid_field, required_field
from pliant.embedded.apiserver.quota.amounts import parse_amount
from pliant.embedded.apiserver.quota.resource_names import (
    is_integer_resource,
    is_standard_quota_resource,
    quantity_problem,
    validate_quota_resource_name,
)
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_POD_RESOURCES: Final = frozenset(
    {"pods", *(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory"))}
)
_RESOURCES_OF_SCOPES: Final[Mapping[str, frozenset[str]]] = {
    "Terminating": _POD_RESOURCES,
    "NotTerminating": _POD_RESOURCES,
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _POD_RESOURCES,
    "PriorityClass": _POD_RESOURCES,
    "CrossNamespacePodAffinity": _POD_RESOURCES,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""The resources that each scope can restrict; resources that are not standard are not checked."""
_CONFLICTING_SCOPES: Final = (frozenset({"BestEffort", "NotBestEffort"}), frozenset({"Terminating", "NotTerminating"}))
_SCOPES_THAT_EXIST: Final = (
    *("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"),
)
_MUST_BE_EXISTS: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def validate_resource_quota(quota: Object, old: Object | None) -> list[FieldError]:
    spec, status = quota.get("spec") or {}, quota.get("status") or {}
    errors = list(_validate_amounts(spec.get("hard"), "spec.hard"))
    errors += _validate_scopes(spec)
    errors += _validate_scope_selector(spec)
    for field in ("hard", "used"):
        errors += _validate_amounts(status.get(field), f"status.{field}")
    if old is not None and set(spec.get("scopes") or ()) != set((old.get("spec") or {}).get("scopes") or ()):
        errors.append(invalid_field("spec.scopes", spec.get("scopes"), "field is immutable"))
    return errors


def _validate_amounts(amounts: Mapping[str, Any] | None, path: str) -> Iterator[FieldError]:
    for name, value in sorted((amounts or {}).items()):
        field = f"{path}[{name}]"
        yield from validate_quota_resource_name(name, field)
        if message := quantity_problem(value):
            yield invalid_field(field, value, message)
            continue
        amount = parse_amount(value)
        if amount.nanos < 0:
            yield invalid_field(field, str(amount), "must be greater than or equal to 0")
        if is_integer_resource(name) and amount.nanos % 10**9:
            yield invalid_field(field, str(amount), "must be an integer")


def _validate_scopes(spec: Object) -> Iterator[FieldError]:
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _RESOURCES_OF_SCOPES:
            yield invalid_field("spec.scopes", scopes, "unsupported scope")
        for _ in _unsupported_resources(scope, spec.get("hard") or ()):
            yield invalid_field("spec.scopes", scopes, "unsupported scope applied to resource")
    yield from _validate_conflicts(scopes, spec)


def _validate_scope_selector(spec: Object) -> Iterator[FieldError]:
    selector = spec.get("scopeSelector")
    if not selector:
        return
    path = "spec.scopeSelector.matchExpressions"
    requirements = selector.get("matchExpressions") or ()
    for requirement in requirements:
        scope, operator = requirement.get("scopeName"), requirement.get("operator")
        if scope not in _RESOURCES_OF_SCOPES:
            yield invalid_field(f"{path}.scopeName", scope, "unsupported scope")
        for _ in _unsupported_resources(scope, spec.get("hard") or ()):
            yield invalid_field(path, selector, "unsupported scope applied to resource")
        if scope in _SCOPES_THAT_EXIST and operator != "Exists":
            yield invalid_field(f"{path}.operator", operator, _MUST_BE_EXISTS)
        yield from _validate_operator(requirement, path)
    yield from _validate_conflicts([each.get("scopeName") for each in requirements], spec)


def _validate_operator(requirement: Object, path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator"), requirement.get("values")
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield required_field(f"{path}.values", detail)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield invalid_field(f"{path}.values", values, detail)
    else:
        yield invalid_field(f"{path}.operator", operator, "not a valid selector operator")


def _unsupported_resources(scope: str, names: Iterable[str]) -> list[str]:
    """Return the standard resources of a quota that a scope cannot restrict."""
    supported = _RESOURCES_OF_SCOPES.get(scope)
    if supported is None:
        return []
    return [name for name in sorted(names) if is_standard_quota_resource(name) and name not in supported]


def _validate_conflicts(scopes: Iterable[str], spec: Object) -> Iterator[FieldError]:
    for pair in _CONFLICTING_SCOPES:
        if pair <= set(scopes):
            yield invalid_field("spec.scopes", spec.get("scopes"), "conflicting scopes")
