"""What is wrong with an object, said in the words of the Kubernetes API server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from pliant.errors import Invalid


class FieldErrorType(Enum):
    """Kinds of problem: the cause in a Status, and the words a message begins with."""

    REQUIRED = ("FieldValueRequired", "Required value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    TYPE = ("FieldValueTypeInvalid", "Invalid value")
    UNSUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")

    def __init__(self, cause: str, message_prefix: str) -> None:
        self.cause = cause
        self.message_prefix = message_prefix


_TYPES_WITHOUT_VALUE = frozenset({FieldErrorType.REQUIRED, FieldErrorType.TOO_LONG, FieldErrorType.FORBIDDEN})


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that cannot stay as it is."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message

    @classmethod
    def of(cls, field: str, error_type: FieldErrorType, value: Any, detail: str) -> FieldError:
        """Word a problem as the real server does: kind, offending value, detail."""
        parts = [error_type.message_prefix]
        if error_type not in _TYPES_WITHOUT_VALUE:
            parts.append(to_json_text(value))
        if detail:
            parts.append(detail)
        return cls(field, error_type.cause, ": ".join(parts))


PathSegment = str | int


class FieldErrorBuilder:
    """A problem that learns its place on the way up, so that sound objects cost no paths."""

    __slots__ = ("detail", "reason", "steps", "value")

    def __init__(self, error_type: FieldErrorType, value: Any = "", detail: str = "") -> None:
        self.reason = error_type
        self.value = value
        self.detail = detail
        """May hold `{path}`, filled in when the place is known."""
        self.steps: list[PathSegment] = []

    def prepend(self, segment: PathSegment) -> FieldErrorBuilder:
        """The same fault, seen from one level further out."""
        self.steps.append(segment)
        return self

    def build(self) -> FieldError:
        """The finished problem, with its whole path."""
        path = format_path(self.steps)
        return FieldError.of(path, self.reason, self.value, self.detail.replace("{path}", path))


def format_path(segments: Sequence[PathSegment]) -> str:
    """Steps noted from the inside out, as `spec.list[0].name`."""
    text = ""
    for step in reversed(segments):
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def to_json_text(value: Any) -> str:
    """A value as it appears in a message: JSON, strings quoted."""
    return msgspec.json.encode(value).decode()


def invalid_error(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> Invalid:
    """The 422 that tells every problem of one object at once."""
    unique = list(dict.fromkeys(str(problem) for problem in errors))
    said = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
    title = f"{kind}.{group}" if group else kind
    causes = [{"reason": p.reason, "message": p.message, "field": p.field} for p in errors]
    details = {"name": name, "group": group, "kind": kind, "causes": causes}
    return Invalid(422, "Invalid", f'{title} "{name}" is invalid: {said}', details=details)
