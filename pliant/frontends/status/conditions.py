"""Conditions as a history: one for each phase passed, in order of the latest passage, only the last one True."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pliant.frontends.crd import field_doc

MAX_CONDITIONS = 32
"""Conditions kept, whoever wrote them."""


class PhaseCondition(Struct, frozen=True, kw_only=True, rename="camel"):
    """One phase a job has passed."""

    type: Annotated[str, field_doc("The phase.")]
    status: Annotated[str, field_doc("True for the present phase, False for those passed.")]
    reason: Annotated[str, field_doc("One word for machines.")] = ""
    message: Annotated[str, field_doc("What happened, for people.")] = ""
    last_probe_time: Annotated[datetime | None, field_doc("When the message last changed.")] = None
    last_transition_time: Annotated[datetime | None, field_doc("When the phase began.")] = None


def read_conditions(status: Mapping[str, Any]) -> tuple[PhaseCondition, ...]:
    """The conditions of a raw status; what is not a condition is left out."""
    entries = status.get("conditions")
    return tuple(filter(None, map(_decode_condition, entries))) if isinstance(entries, list) else ()


def with_current_condition(
    conditions: tuple[PhaseCondition, ...], current: PhaseCondition, at: datetime
) -> tuple[PhaseCondition, ...]:
    """The history with `present` as its last, True entry; unchanged if it is that already.

    A phase entered again moves to the end instead of appearing twice, so that `kubectl wait --for=condition=…`,
    which believes the first entry of a type, is told the truth.
    """
    if conditions and conditions[-1].type == current.type and conditions[-1].status == "True":
        last = conditions[-1]
        if (last.reason, last.message) == (current.reason, current.message):
            return conditions
        return (*conditions[:-1], replace(last, reason=current.reason, message=current.message, last_probe_time=at))
    passed = tuple(replace(entry, status="False") for entry in conditions if entry.type != current.type)
    return (*passed, replace(current, status="True", last_probe_time=at, last_transition_time=at))[-MAX_CONDITIONS:]


def _decode_condition(entry: Any) -> PhaseCondition | None:
    try:
        return msgspec.convert(entry, PhaseCondition)
    except msgspec.ValidationError:
        return None
