"""Conditions as a history: one for each phase passed, in order of the latest passage, only the last one True."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pliant.frontends.crd import told

LONGEST = 32
"""Conditions kept, whoever wrote them."""


class Condition(Struct, frozen=True, kw_only=True, rename="camel"):
    """One phase a job has passed."""

    type: Annotated[str, told("The phase.")]
    status: Annotated[str, told("True for the present phase, False for those passed.")]
    reason: Annotated[str, told("One word for machines.")] = ""
    message: Annotated[str, told("What happened, for people.")] = ""
    last_probe_time: Annotated[datetime | None, told("When the message last changed.")] = None
    last_transition_time: Annotated[datetime | None, told("When the phase began.")] = None


def history_in(status: Mapping[str, Any]) -> tuple[Condition, ...]:
    """The conditions of a raw status; what is not a condition is left out."""
    entries = status.get("conditions")
    return tuple(filter(None, map(_condition, entries))) if isinstance(entries, list) else ()


def moved_to(history: tuple[Condition, ...], present: Condition, at: datetime) -> tuple[Condition, ...]:
    """The history with `present` as its last, True entry; unchanged if it is that already.

    A phase entered again moves to the end instead of appearing twice, so that `kubectl wait --for=condition=…`,
    which believes the first entry of a type, is told the truth.
    """
    if history and history[-1].type == present.type and history[-1].status == "True":
        last = history[-1]
        if (last.reason, last.message) == (present.reason, present.message):
            return history
        return (*history[:-1], replace(last, reason=present.reason, message=present.message, last_probe_time=at))
    passed = tuple(replace(entry, status="False") for entry in history if entry.type != present.type)
    return (*passed, replace(present, status="True", last_probe_time=at, last_transition_time=at))[-LONGEST:]


def _condition(entry: Any) -> Condition | None:
    try:
        return msgspec.convert(entry, Condition)
    except msgspec.ValidationError:
        return None
