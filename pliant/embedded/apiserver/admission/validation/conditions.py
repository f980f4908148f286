"""Validation of the conditions of a status, as metav1.Condition defines them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pliant.embedded.apiserver.admission.validation.names import validate_qualified_name
from pliant.embedded.apiserver.http.errors import duplicate_value, invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.storage.stored_objects import Object

_STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_MESSAGE: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'"
)
_MAX_BYTES: Final = {"reason": 1024, "message": 32 * 1024}


def validate_conditions(conditions: Sequence[Object], path: str) -> Iterator[FieldError]:
    known: set[str] = set()
    for index, condition in enumerate(conditions):
        kind = condition.get("type") or ""
        if kind in known:
            yield duplicate_value(f"{path}[{index}].type", kind)
        known.add(kind)
        yield from _validate_condition(condition, f"{path}[{index}]")


def _validate_condition(condition: Object, path: str) -> Iterator[FieldError]:
    yield from validate_qualified_name(f"{path}.type", condition.get("type") or "")
    status, reason = condition.get("status") or "", condition.get("reason") or ""
    if status not in _STATUSES:
        yield unsupported_value(f"{path}.status", status, _STATUSES)
    generation = condition.get("observedGeneration") or 0
    if generation < 0:
        yield invalid_field(f"{path}.observedGeneration", generation, "must be greater than or equal to zero")
    if not condition.get("lastTransitionTime"):
        yield required_field(f"{path}.lastTransitionTime")
    if not reason:
        yield required_field(f"{path}.reason")
    elif _REASON.fullmatch(reason) is None:
        yield invalid_field(f"{path}.reason", reason, _REASON_MESSAGE)
    for field, limit in _MAX_BYTES.items():
        if len((condition.get(field) or "").encode()) > limit:
            detail = f"may not be more than {limit} bytes"
            yield FieldError.of(f"{path}.{field}", FieldErrorType.TOO_LONG, "", detail)
