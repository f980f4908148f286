"""Validation of the fields of a custom object that its Scale shows."""

from __future__ import annotations

from typing import Any, Final

from pliant.embedded.apiserver.http.errors import invalid_field
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_ABSENT: Final = object()


def validate_scale_fields(kind: Kind, obj: Object) -> list[FieldError]:
    """Return the errors of the fields of a custom object that its Scale shows."""
    if kind.scale is None:
        return []
    errors = []
    for path in (kind.scale.spec_replicas, kind.scale.status_replicas):
        value = _find_field(obj, path)
        if value is not _ABSENT and type(value) is not int:
            errors.append(invalid_field(path, 0, f"{path} accessor error: must be an integer in an object"))
        elif isinstance(value, int) and value < 0:
            errors.append(invalid_field(path, value, "should be a non-negative integer"))
        elif isinstance(value, int) and value >= 2**31:
            detail = f"should be less than or equal to {2**31 - 1}"
            errors.append(invalid_field(path, value, detail))
    selector = kind.scale.label_selector
    if selector and (value := _find_field(obj, selector)) is not _ABSENT and not isinstance(value, str):
        errors.append(invalid_field(selector, "", f"{selector} accessor error: must be a string in an object"))
    return errors


def _find_field(obj: Object, path: str) -> Any:
    """Return the value at a path; a value above it that is not an object, if there is one."""
    value: Any = obj
    parts = path.strip(".").split(".")
    for part in parts:
        if value is None:
            return _ABSENT
        if not isinstance(value, dict):
            return [value]  # of no valid type
        if part not in value:
            return _ABSENT
        value = value[part]
    return value


def get_field_at(obj: Object, path: str) -> Any:
    """Return the value at a path such as `.spec.replicas`, or None if it is absent."""
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
