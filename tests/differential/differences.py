"""The differences between the answers of two servers to one request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.differential.answers import CRASHED, PANICKED, Answer
from tests.differential.steps import Step

_ABSENT = "<absent>"


@dataclass(frozen=True)
class Difference:
    """One thing in which an answer of the embedded server differs from that of the real one."""

    aspect: str
    """`code`, `reason`, `details`, `cause`, `message` or `object`."""
    field: str
    """The field of a cause or an object; indexes are replaced by `[]`."""
    real: Any
    embedded: Any

    def __str__(self) -> str:
        where = f" {self.field}" if self.field else ""
        return f"{self.aspect}{where}: real {_shorten(self.real)}, embedded {_shorten(self.embedded)}"


@dataclass(frozen=True)
class StepResult:
    """Both answers to one step."""

    step: Step
    real: Answer
    embedded: Answer

    def differences(self) -> list[Difference]:
        return compare_answers(self.real, self.embedded)

    @property
    def changes_state_differently(self) -> bool:
        """Whether one server may have written what the other one has not."""
        if self.real.code == PANICKED:
            return True
        return self.step.method not in ("GET", "WATCH", "WAIT") and (self.real.code < 300) != (self.embedded.code < 300)


def compare_answers(real: Answer, embedded: Answer) -> list[Difference]:
    """Return all differences; a different code or reason hides the others."""
    if real.code == PANICKED and embedded.code != CRASHED:
        return []
    if real.code != embedded.code or CRASHED in (real.code, embedded.code):
        texts = map(_causes_text, sorted((real, embedded), key=lambda answer: answer.code != CRASHED))
        return [Difference("code", next(filter(None, texts), ""), real.code, embedded.code)]
    if real.is_failure and embedded.is_failure:
        return list(_compare_failures(real.body, embedded.body))
    return list(_compare_values(_without_manager_events(real, embedded), embedded.body, ""))


def _without_manager_events(real: Answer, embedded: Answer) -> Any:
    """Return the events of a watch without those that repeat an object and that the other server does not have.

    kube-apiserver also writes an object if only its managers change, which the embedded server does not record.
    """
    if not isinstance(real.body, list) or not isinstance(embedded.body, list) or len(real.body) <= len(embedded.body):
        return real.body
    last = {name: _without_type(obj) for name, obj in real.before.items()}
    events: list[Any] = []
    for event in real.body:
        obj = _without_type(event.get("object") or {})  # none if the watch has timed out
        name = obj.get("metadata", {}).get("name", "")
        is_repeated = event["type"] == "MODIFIED" and last.get(name) == obj
        if not is_repeated or embedded.body[len(events) : len(events) + 1] == [event]:
            events.append(event)
        last[name] = obj
    return events


def _without_type(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the fields that the items of a list do not have."""
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}


def _causes_text(answer: Answer) -> str:
    if answer.code == CRASHED:
        return str(answer.body)
    return _without_indexes(str(answer.body["causes"][0][0])) if answer.is_failure and answer.body["causes"] else ""


def _compare_failures(real: dict[str, Any], embedded: dict[str, Any]) -> Iterator[Difference]:
    for aspect in ("reason", "details", "message"):
        if real[aspect] != embedded[aspect]:
            yield Difference(aspect, "", real[aspect], embedded[aspect])
            if aspect == "reason":
                return
    there, here = ({(field, reason) for field, reason in body["causes"]} for body in (real, embedded))
    for field, reason in sorted(there - here):
        yield Difference("cause", _without_indexes(field), reason, _ABSENT)
    for field, reason in sorted(here - there):
        yield Difference("cause", _without_indexes(field), _ABSENT, reason)


def _compare_values(real: Any, embedded: Any, path: str) -> Iterator[Difference]:
    if isinstance(real, dict) and isinstance(embedded, dict):
        for name in sorted({*real, *embedded}):
            below = f"{path}.{name}" if path else name
            yield from _compare_values(real.get(name, _ABSENT), embedded.get(name, _ABSENT), below)
    elif isinstance(real, list) and isinstance(embedded, list) and len(real) == len(embedded):
        for there, here in zip(real, embedded, strict=True):
            yield from _compare_values(there, here, f"{path}[]")
    elif real != embedded or type(real) is not type(embedded):
        yield Difference("object", path, real, embedded)


def _without_indexes(field: str) -> str:
    text, depth = "", 0
    for character in field:
        depth += (character == "[") - (character == "]")
        if not depth or character == "[":
            text += character
    return text


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"
