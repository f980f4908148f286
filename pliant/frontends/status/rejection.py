"""The condition SpecRejected: the spec was edited, and the operator continues with the last spec it accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.status.engine_state import to_json_data, truncate_to_seconds
from pliant.model.messages import MessageReason

SPEC_REJECTED_CONDITION = "SpecRejected"


def with_rejection(
    status: Mapping[str, Any], path: Sequence[str], problem: InvalidSpec, at: datetime, generation: int
) -> dict[str, Any]:
    """Return the raw status with the condition, whose time changes only if it was absent.

    It is never the last condition: several kinds show the last one as the state of the job.
    """
    before = find_rejection(status, path)
    condition = {
        "type": SPEC_REJECTED_CONDITION,
        "status": "True",
        "reason": str(MessageReason.INVALID_SPEC),
        "message": str(problem),
        "lastTransitionTime": before.get("lastTransitionTime") or to_json_data(truncate_to_seconds(at)),
        "observedGeneration": generation,
    }
    return _with_rejection_condition(status, path, condition)


def with_same_rejection(status: Mapping[str, Any], path: Sequence[str], previous: Mapping[str, Any]) -> dict[str, Any]:
    """Return the raw status with the condition of the previous status, if that has one."""
    before = find_rejection(previous, path)
    return _with_rejection_condition(status, path, before) if before else dict(status)


def without_rejection(status: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    if not find_rejection(status, path):
        return dict(status)
    return replace_conditions(status, path, _other_conditions(status, path))


def find_rejection(status: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    """Return the condition; empty if there is none."""
    found = (entry for entry in list_conditions(status, path) if entry.get("type") == SPEC_REJECTED_CONDITION)
    return next(found, {})


def _with_rejection_condition(
    status: Mapping[str, Any], path: Sequence[str], condition: Mapping[str, Any]
) -> dict[str, Any]:
    others = _other_conditions(status, path)
    return replace_conditions(status, path, [*others[:-1], condition, *others[-1:]])


def _other_conditions(status: Mapping[str, Any], path: Sequence[str]) -> list[Mapping[str, Any]]:
    return [entry for entry in list_conditions(status, path) if entry.get("type") != SPEC_REJECTED_CONDITION]


def list_conditions(status: Any, path: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the conditions at a path of a raw status."""
    for step in path:
        status = status.get(step) if isinstance(status, Mapping) else None
    return [entry for entry in status if isinstance(entry, Mapping)] if isinstance(status, list) else []


def replace_conditions(
    status: Mapping[str, Any], path: Sequence[str], conditions: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the raw status with other conditions at a path."""
    first, *rest = path
    if not rest:
        return {**status, first: list(conditions)}
    inner = status.get(first)
    return {**status, first: replace_conditions(inner if isinstance(inner, Mapping) else {}, rest, conditions)}
