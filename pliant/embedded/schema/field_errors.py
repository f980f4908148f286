"""Field errors, worded as the Kubernetes API server words them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from pliant.errors import Invalid


class FieldErrorType(Enum):
    """Types of error: the `reason` of a cause in a Status, and the prefix of the message."""

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
    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message

    @classmethod
    def of(cls, field: str, error_type: FieldErrorType, value: Any, detail: str) -> FieldError:
        """Return an error with the message of the Kubernetes API server: type, value, detail."""
        parts = [error_type.message_prefix]
        if error_type not in _TYPES_WITHOUT_VALUE:
            parts.append(to_json_text(value))
        if detail:
            parts.append(detail)
        return cls(field, error_type.cause, ": ".join(parts))


def required_field(path: str, detail: str = "") -> FieldError:
    return FieldError.of(path, FieldErrorType.REQUIRED, None, detail)


def invalid_field(path: str, value: Any, detail: str) -> FieldError:
    return FieldError.of(path, FieldErrorType.INVALID, value, detail)


def forbidden_field(path: str, detail: str) -> FieldError:
    return FieldError.of(path, FieldErrorType.FORBIDDEN, None, detail)


def duplicate_value(path: str, value: Any) -> FieldError:
    return FieldError.of(path, FieldErrorType.DUPLICATE, value, "")


def unsupported_value(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    values = ", ".join(f'"{each}"' for each in supported)
    return FieldError.of(path, FieldErrorType.UNSUPPORTED, value, f"supported values: {values}")


PathSegment = str | int


class FieldErrorBuilder:
    """An error whose path is added on the way up, so that valid objects cost no paths."""

    __slots__ = ("detail", "error_type", "segments", "value")

    def __init__(self, error_type: FieldErrorType, value: Any = "", detail: str = "") -> None:
        self.error_type = error_type
        self.value = value
        self.detail = detail
        """May contain `{path}`, which `build` replaces."""
        self.segments: list[PathSegment] = []

    def prepend(self, segment: PathSegment) -> FieldErrorBuilder:
        self.segments.append(segment)
        return self

    def build(self) -> FieldError:
        path = format_reversed_path(self.segments)
        return FieldError.of(path, self.error_type, self.value, self.detail.replace("{path}", path))


class NotIntegerBuilder(FieldErrorBuilder):
    """A number where an integer is required."""

    __slots__ = ()


ValidationResult = list[FieldErrorBuilder] | None
Validator = Callable[[Any], ValidationResult]


def invalid_value(value: Any, detail: str) -> list[FieldErrorBuilder]:
    return [FieldErrorBuilder(FieldErrorType.INVALID, value, detail)]


def format_reversed_path(segments: Sequence[PathSegment]) -> str:
    """Return segments, the innermost first, as `spec.list[0].name`."""
    text = ""
    for segment in reversed(segments):
        if isinstance(segment, int):
            text += f"[{segment}]"
        else:
            text += f".{segment}" if text else segment
    return text


def to_json_text(value: Any) -> str:
    # The hook encodes the numbers of strategic merge patches, which are a class of their own.
    return msgspec.json.encode(value, enc_hook=int).decode()


def invalid_error(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> Invalid:
    """Return the 422 error with all field errors of one object."""
    unique = list(dict.fromkeys(str(error) for error in errors))
    summary = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
    title = f"{kind}.{group}" if group else kind
    causes = [{"reason": error.reason, "message": error.message, "field": error.field} for error in errors]
    details = {"name": name, "group": group, "kind": kind, "causes": causes}
    return Invalid(422, "Invalid", f'{title} "{name}" is invalid: {summary}', details=details)
