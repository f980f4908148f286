"""Validation of the topology spread constraints of a pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation.label_selectors import validate_label_selector
from pliant.embedded.apiserver.admission.validation.pods.label_keys import validate_label_keys
from pliant.embedded.apiserver.http.errors import duplicate_value, invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_NODE_POLICIES: Final = ("Honor", "Ignore")


def validate_spread_constraints(spec: Object) -> Iterator[FieldError]:
    constraints = spec.get("topologySpreadConstraints") or []
    for index, constraint in enumerate(constraints):
        path = f"spec.topologySpreadConstraints[{index}]"
        skew = constraint.get("maxSkew") or 0
        if skew <= 0:
            yield invalid_field(f"{path}.maxSkew", skew, "must be greater than zero")
        key, action = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if not key:
            yield required_field(f"{path}.topologyKey", "can not be empty")
        if action not in _ACTIONS:
            yield unsupported_value(f"{path}.whenUnsatisfiable", action, _ACTIONS)
        later = [
            (each.get("topologyKey") or "", each.get("whenUnsatisfiable") or "") for each in constraints[index + 1 :]
        ]
        if (key, action) in later:
            yield duplicate_value(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        yield from _validate_min_domains(constraint.get("minDomains"), action, f"{path}.minDomains")
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(field)
            if policy is not None and policy not in _NODE_POLICIES:
                yield unsupported_value(f"{path}.{field}", policy, _NODE_POLICIES)
        yield from validate_label_keys(constraint, path)
        yield from validate_label_selector(constraint.get("labelSelector") or {}, f"{path}.labelSelector")


def _validate_min_domains(domains: int | None, action: str, path: str) -> Iterator[FieldError]:
    if domains is not None and domains <= 0:
        yield invalid_field(path, domains, "must be greater than zero")
    if domains is not None and action != _ACTIONS[0]:
        detail = f"can only use minDomains if whenUnsatisfiable={_ACTIONS[0]}, not {action}"
        yield invalid_field(path, domains, detail)
