"""The engine's memory inside a status: one blob, the same for every kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from pliant.errors import InvalidSpec
from pliant.model.state import EngineState

STATE_FIELD = "pliant"
"""The status field that holds it."""


def raw_status(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of a raw object; empty if it has none, or something that is no status."""
    status = raw.get("status")
    return status if isinstance(status, Mapping) else {}


def load_state(status: Mapping[str, Any]) -> EngineState | None:
    """What the engine wrote last; None if it never wrote.

    Fields of a newer Pliant are passed over. A memory that cannot be read at all raises InvalidSpec: the job is
    then left exactly as it is, because to forget would be to train a finished job once more.
    """
    blob = status.get(STATE_FIELD)
    if not blob:
        return None
    try:
        return msgspec.convert(blob, EngineState, str_keys=True)
    except msgspec.ValidationError as error:
        advice = "written by a newer Pliant? Run that version, or remove status.pliant to start the job afresh"
        raise InvalidSpec(f"status.{STATE_FIELD}", f"cannot be read ({error}): {advice}") from None


def dump_state(state: EngineState) -> dict[str, Any]:
    """The memory as plain data, ready for a status."""
    return cast("dict[str, Any]", to_json_data(state))


def to_json_data(value: Any) -> Any:
    """A value as an API server gives it back, so that comparing the two tells whether anything changed."""
    return msgspec.json.decode(msgspec.json.encode(value))
