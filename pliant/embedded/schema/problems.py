"""What is wrong with an object, said in the words of the Kubernetes API server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from pliant.errors import Invalid


class Reason(Enum):
    """Kinds of problem: the cause in a Status, and the words a message begins with."""

    REQUIRED = ("FieldValueRequired", "Required value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    TYPE = ("FieldValueTypeInvalid", "Invalid value")
    UNSUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")

    def __init__(self, cause: str, words: str) -> None:
        self.cause = cause
        self.words = words


_WITHOUT_VALUE = frozenset({Reason.REQUIRED, Reason.TOO_LONG, Reason.FORBIDDEN})


@dataclass(frozen=True, slots=True)
class Problem:
    """One field that cannot stay as it is."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message

    @classmethod
    def of(cls, field: str, reason: Reason, value: Any, detail: str) -> Problem:
        """Word a problem as the real server does: kind, offending value, detail."""
        parts = [reason.words]
        if reason not in _WITHOUT_VALUE:
            parts.append(shown(value))
        if detail:
            parts.append(detail)
        return cls(field, reason.cause, ": ".join(parts))


Step = str | int


class Fault:
    """A problem that learns its place on the way up, so that sound objects cost no paths."""

    __slots__ = ("detail", "reason", "steps", "value")

    def __init__(self, reason: Reason, value: Any = "", detail: str = "") -> None:
        self.reason = reason
        self.value = value
        self.detail = detail
        """May hold `{path}`, filled in when the place is known."""
        self.steps: list[Step] = []

    def at(self, step: Step) -> Fault:
        """The same fault, seen from one level further out."""
        self.steps.append(step)
        return self

    def problem(self) -> Problem:
        """The finished problem, with its whole path."""
        path = dotted(self.steps)
        return Problem.of(path, self.reason, self.value, self.detail.replace("{path}", path))


def dotted(steps: Sequence[Step]) -> str:
    """Steps noted from the inside out, as `spec.list[0].name`."""
    text = ""
    for step in reversed(steps):
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def shown(value: Any) -> str:
    """A value as it appears in a message: JSON, strings quoted."""
    return msgspec.json.encode(value).decode()


def invalid(kind: str, group: str, name: str, problems: Sequence[Problem]) -> Invalid:
    """The 422 that tells every problem of one object at once."""
    unique = list(dict.fromkeys(str(problem) for problem in problems))
    said = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
    title = f"{kind}.{group}" if group else kind
    causes = [{"reason": p.reason, "message": p.message, "field": p.field} for p in problems]
    details = {"name": name, "group": group, "kind": kind, "causes": causes}
    return Invalid(422, "Invalid", f'{title} "{name}" is invalid: {said}', details=details)
