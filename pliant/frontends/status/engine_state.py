"""Load and dump the engine state in `status.pliant`, and helpers to decode and encode statuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar, cast, overload

import msgspec
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.model.departures import DepartureBatch, batch_departures, split_batches
from pliant.model.messages import NO_MESSAGE, Message, MessageReason, message
from pliant.model.state import EngineState, JobPhase, TimelineEntry, Timestamp

STATE_FIELD = "pliant"
"""The status field that holds the engine state."""
DEPARTURES_FIELD = "departures"
"""A list: servers track the fields of objects one by one, which would double the size of large jobs."""

T = TypeVar("T")


def raw_status(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the status of a raw object, or an empty mapping if it has no valid one."""
    status = raw.get("status")
    return status if isinstance(status, Mapping) else {}


def load_state(status: Mapping[str, Any]) -> EngineState | None:
    """Return the engine state of a raw status, or None if it has none.

    Unknown fields of a newer version are ignored. State that cannot be decoded raises InvalidSpec, so that the
    operator does not touch the job: without its state it would train a finished job again.
    """
    blob = status.get(STATE_FIELD)
    if not blob:
        return None
    try:
        fields = msgspec.convert(blob, dict[str, Any])
        batches = msgspec.convert(fields.pop(DEPARTURES_FIELD, ()), list[DepartureBatch])
        state = msgspec.convert(fields, EngineState, str_keys=True)
        return replace(state, departures=split_batches(batches)) if batches else state
    except msgspec.ValidationError as error:
        advice = "if a newer version of Pliant wrote it, run that version; to restart the job, remove status.pliant"
        raise InvalidSpec(f"status.{STATE_FIELD}", f"cannot be decoded ({error}): {advice}") from None


def dump_state(state: EngineState) -> dict[str, Any]:
    """Return the engine state as JSON data."""
    data = cast("dict[str, Any]", to_json_data(replace(state, departures={})))
    if state.departures:
        data[DEPARTURES_FIELD] = to_json_data(batch_departures(state.departures))
    return data


def state_of_external_job(started_at: datetime | None) -> EngineState | None:
    """Return the state of an active job that another operator started, or None if it did not start the job."""
    if started_at is None:
        return None
    started = message(MessageReason.STARTED_BY_OTHER_OPERATOR)
    entry = TimelineEntry(at=started_at, reason=str(JobPhase.PENDING), message=started)
    return EngineState(phase=JobPhase.PENDING, started_at=started_at, timeline=(entry,))


def external_message(text: str) -> Message:
    """Return the message of a status that another operator wrote."""
    return message(MessageReason.REPORTED_BY_OTHER_OPERATOR, message=text) if text else NO_MESSAGE


def to_json_data(value: Any) -> Any:
    """Return a value as the API server returns it, so that the two can be compared."""
    return msgspec.json.decode(msgspec.json.encode(value))


def decode_valid_items(item_type: type[T], items: Any) -> Iterator[T]:
    """Yield the items of a raw list that decode as the type; skip all others."""
    for item in items if isinstance(items, list) else ():
        try:
            yield msgspec.convert(item, item_type)
        except msgspec.ValidationError:
            continue


def parse_time(value: Any) -> datetime | None:
    """Return the time of a raw object, or None if it is absent, invalid or has no time zone."""
    try:
        return msgspec.convert(value, Timestamp | None)
    except msgspec.ValidationError:
        return None


@overload
def truncate_to_seconds(timestamp: datetime) -> datetime: ...
@overload
def truncate_to_seconds(timestamp: None) -> None: ...
def truncate_to_seconds(timestamp: datetime | None) -> datetime | None:
    """Return a timestamp without fractions of a second, as Kubernetes writes timestamps in statuses."""
    return None if timestamp is None else timestamp.replace(microsecond=0)
