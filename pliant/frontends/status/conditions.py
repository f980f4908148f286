"""Status conditions: a history of phases, and conditions as Kubeflow and DLRover define them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends.crd import field_doc
from pliant.frontends.status.engine_state import decode_valid_items
from pliant.model.state import Timestamp

MAX_CONDITIONS = 32
INVALID_CONDITION = "Invalid"
"""The condition of an object that failed validation."""

_Reason = Annotated[str, field_doc("Machine-readable reason for the last transition, in CamelCase.")]
_Message = Annotated[str, field_doc("Human-readable details about the last transition.")]


class PhaseCondition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A phase that the job is or was in."""

    type: Annotated[str, field_doc("The phase.")]
    status: Annotated[str, field_doc("True for the current phase, False for earlier phases.")]
    reason: _Reason = ""
    message: _Message = ""
    last_probe_time: Annotated[datetime | None, field_doc("Time of the last change of reason or message.")] = None
    last_transition_time: Annotated[datetime | None, field_doc("Time when the phase began.")] = None


class JobCondition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A condition of the job."""

    type: Annotated[str, field_doc("Type of the condition, such as Created, Running, Succeeded, Failed or Invalid.")]
    status: Annotated[str, field_doc("Status of the condition: True or False.")]
    reason: _Reason = ""
    message: _Message = ""
    last_update_time: Annotated[Timestamp | None, field_doc("Time of the last update of the condition.")] = None
    last_transition_time: Annotated[Timestamp | None, field_doc("Time of the last change of the status.")] = None


def read_phase_conditions(status: Mapping[str, Any]) -> tuple[PhaseCondition, ...]:
    """Return the valid phase conditions of a raw status."""
    return tuple(decode_valid_items(PhaseCondition, status.get("conditions")))


def with_current_phase(
    conditions: tuple[PhaseCondition, ...], current: PhaseCondition, at: datetime
) -> tuple[PhaseCondition, ...]:
    """Return the conditions with the current phase as the last and only True one; unchanged if it is already.

    A phase that the job enters again moves to the end instead of appearing twice, because
    `kubectl wait --for=condition=…` reads the first condition of a type.
    """
    if conditions and conditions[-1].type == current.type and conditions[-1].status == "True":
        last = conditions[-1]
        if (last.reason, last.message) == (current.reason, current.message):
            return conditions
        return (*conditions[:-1], replace(last, reason=current.reason, message=current.message, last_probe_time=at))
    earlier = tuple(replace(entry, status="False") for entry in conditions if entry.type != current.type)
    return (*earlier, replace(current, status="True", last_probe_time=at, last_transition_time=at))[-MAX_CONDITIONS:]


def new_true_condition(condition_type: str, reason: str, message: str, at: datetime) -> JobCondition:
    """Return a True condition whose times are `at`."""
    return JobCondition(
        type=condition_type, status="True", reason=reason, message=message, last_update_time=at, last_transition_time=at
    )


def update_condition(previous: JobCondition | None, current: JobCondition) -> JobCondition:
    """Return the previous condition if nothing changed, else the current one with the right transition time."""
    if previous is None:
        return current
    if all(getattr(previous, name) == getattr(current, name) for name in ("status", "reason", "message")):
        return previous
    if previous.status != current.status:
        return current
    return replace(current, last_transition_time=previous.last_transition_time)


def mark_false(condition: JobCondition, at: datetime) -> JobCondition:
    """Return the condition with status False."""
    return replace(condition, status="False", last_update_time=at, last_transition_time=at)


def with_invalid_condition(
    conditions: tuple[JobCondition, ...], problem: InvalidSpec, at: datetime
) -> tuple[JobCondition, ...]:
    """Return the conditions with the validation error last; unchanged if they report it already."""
    if any((entry.type, entry.message) == (INVALID_CONDITION, str(problem)) for entry in conditions):
        return conditions
    others = (entry for entry in conditions if entry.type != INVALID_CONDITION)
    return (*others, new_true_condition(INVALID_CONDITION, "InvalidSpec", str(problem), at))
