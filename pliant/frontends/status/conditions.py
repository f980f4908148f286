"""Status conditions: a history of phases, and conditions as Kubeflow and DLRover define them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends.crd import field_doc
from pliant.frontends.status.engine_state import decode_valid_items, to_json_data, truncate_to_seconds
from pliant.model.english import render
from pliant.model.messages import MessageReason
from pliant.model.state import EngineState, Timestamp

MAX_CONDITIONS = 32
INVALID_CONDITION = "Invalid"
"""The condition, and without an earlier phase the phase, of an object that failed validation."""

_Reason = Annotated[str, field_doc("Machine-readable reason for the last transition, in CamelCase.")]
_ObservedGeneration = Annotated[int, field_doc("The metadata.generation that the condition is based on.")]
_Message = Annotated[str, field_doc("Human-readable details about the last transition.")]


class PhaseCondition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A phase that the job is or was in."""

    type: Annotated[str, field_doc("The phase.")]
    status: Annotated[str, field_doc("True for the current phase, False for earlier phases.")]
    reason: _Reason = ""
    message: _Message = ""
    last_probe_time: Annotated[datetime | None, field_doc("Time of the last change of reason or message.")] = None
    last_transition_time: Annotated[datetime | None, field_doc("Time when the phase began.")] = None
    observed_generation: _ObservedGeneration = 0


class JobCondition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A condition of the job."""

    type: Annotated[str, field_doc("Type of the condition, such as Created, Running, Succeeded, Failed or Invalid.")]
    status: Annotated[str, field_doc("Status of the condition: True or False.")]
    reason: _Reason = ""
    message: _Message = ""
    last_update_time: Annotated[Timestamp | None, field_doc("Time of the last update of the condition.")] = None
    last_transition_time: Annotated[Timestamp | None, field_doc("Time of the last change of the status.")] = None
    observed_generation: _ObservedGeneration = 0


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
        after = replace(current, last_probe_time=last.last_probe_time, last_transition_time=last.last_transition_time)
        if after == last:
            return conditions
        return (*conditions[:-1], replace(after, last_probe_time=at))
    earlier = tuple(replace(entry, status="False") for entry in conditions if entry.type != current.type)
    return (*earlier, replace(current, status="True", last_probe_time=at, last_transition_time=at))[-MAX_CONDITIONS:]


def new_current_phase(phase_name: str, reason: str, state: EngineState) -> PhaseCondition:
    return PhaseCondition(
        type=phase_name,
        status="True",
        reason=reason,
        message=render(state.message),
        observed_generation=state.observed_generation,
    )


def new_true_condition(
    condition_type: str, reason: str, message: str, at: datetime, observed_generation: int = 0
) -> JobCondition:
    """Return a True condition whose times are `at`."""
    return JobCondition(
        type=condition_type,
        status="True",
        reason=reason,
        message=message,
        last_update_time=at,
        last_transition_time=at,
        observed_generation=observed_generation,
    )


def update_condition(previous: JobCondition | None, current: JobCondition) -> JobCondition:
    """Return the previous condition if nothing changed, else the current one with the right transition time."""
    if previous is None:
        return current
    compared = ("status", "reason", "message", "observed_generation")
    if all(getattr(previous, name) == getattr(current, name) for name in compared):
        return previous
    if previous.status != current.status:
        return current
    return replace(current, last_transition_time=previous.last_transition_time)


def mark_false(condition: JobCondition, at: datetime) -> JobCondition:
    """Return the condition with status False."""
    return replace(condition, status="False", last_update_time=at, last_transition_time=at)


def with_invalid_condition(
    conditions: tuple[JobCondition, ...], problem: InvalidSpec, at: datetime, observed_generation: int
) -> tuple[JobCondition, ...]:
    """Return the conditions with the validation error last; unchanged if they report it already."""
    before = next((entry for entry in conditions if entry.type == INVALID_CONDITION), None)
    reason = str(MessageReason.INVALID_SPEC)
    current = new_true_condition(INVALID_CONDITION, reason, str(problem), at, observed_generation)
    others = (entry for entry in conditions if entry.type != INVALID_CONDITION)
    return (*others, update_condition(before, current))


def add_invalid_phase(
    problem: InvalidSpec, previous: Mapping[str, Any], now: datetime, observed_generation: int
) -> dict[str, Any]:
    """Return the previous status with the validation error; unchanged if it reports this error already."""
    current = PhaseCondition(
        type=INVALID_CONDITION,
        status="True",
        reason=str(MessageReason.INVALID_SPEC),
        message=str(problem),
        observed_generation=observed_generation,
    )
    history = read_phase_conditions(previous)
    conditions = with_current_phase(history, current, truncate_to_seconds(now))
    if conditions == history:
        return dict(previous)
    return {
        **previous,
        "phase": previous.get("phase") or INVALID_CONDITION,
        "reason": current.reason,
        "message": current.message,
        "conditions": to_json_data(conditions),
        "lastReconcileTime": to_json_data(truncate_to_seconds(now)),
    }


def has_invalid_phase(status: Mapping[str, Any]) -> bool:
    """Return whether the last phase condition of a status is Invalid."""
    history = read_phase_conditions(status)
    return bool(history) and history[-1].type == INVALID_CONDITION
