"""Validation of the fields of a custom object that its Scale shows."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.http.errors import invalid_field
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object


def validate_scale_fields(kind: Kind, obj: Object) -> list[FieldError]:
    """Return the errors of the fields of a custom object that its Scale shows."""
    if kind.scale is None:
        return []
    errors = []
    for path in (kind.scale.spec_replicas, kind.scale.status_replicas):
        value = get_field_at(obj, path)
        if isinstance(value, int) and value < 0:
            errors.append(invalid_field(path, value, "should be a non-negative integer"))
        elif isinstance(value, int) and value >= 2**31:
            detail = f"should be less than or equal to {2**31 - 1}"
            errors.append(invalid_field(path, value, detail))
    return errors


def get_field_at(obj: Object, path: str) -> Any:
    """Return the value at a path such as `.spec.replicas`, or None if it is absent."""
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
