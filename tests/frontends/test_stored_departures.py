"""Thousands of replicas may leave at once: what the status says of them must fit into one object of the API."""

from __future__ import annotations

import uuid
from datetime import timedelta

import msgspec
import pytest

from pliant.errors import InvalidSpec
from pliant.frontends.status.engine_state import dump_state, load_state
from pliant.model.departures import Departure, DepartureReason
from pliant.model.state import EngineState, JobPhase
from tests.builders import NOON

ETCD_LIMIT = 1_500_000
SECOND = timedelta(seconds=1)


def leaving(count: int, *, moments: int) -> EngineState:
    """A state in which so many replicas leave, which have answered at so many moments."""
    departures = {
        str(uuid.UUID(int=index << 80)): Departure(
            request=1,
            reason=DepartureReason.SUSPENDED,
            group="worker",
            index=index,
            at=NOON,
            deadline=NOON + 30 * SECOND,
            acknowledged_at=NOON + index % moments * SECOND if moments else None,
        )
        for index in range(count)
    }
    return EngineState(phase=JobPhase.RUNNING, started_at=NOON, departures=departures)


@pytest.mark.parametrize("moments", [0, 1, 30])
def test_five_thousand_replicas_that_leave_at_once_fit(moments: int) -> None:
    state = leaving(5_000, moments=moments)
    stored = dump_state(state)
    assert len(msgspec.json.encode(stored)) < ETCD_LIMIT / 6
    assert isinstance(stored["departures"], list), "servers track the fields of an object one by one"
    assert load_state({"pliant": stored}) == state


def test_the_pod_decides_which_departure_is_whose() -> None:
    state = leaving(3, moments=2)
    assert [len(batch["pods"]) for batch in dump_state(state)["departures"]] == [2, 1]
    loaded = load_state({"pliant": dump_state(state)})
    assert loaded is not None
    assert loaded.departures == state.departures


@pytest.mark.parametrize("departures", [7, {"uid": {"request": 1}}, [{"request": 1}], ["x"]])
def test_departures_that_cannot_be_read_are_an_error(departures: object) -> None:
    stored = {**dump_state(leaving(1, moments=0)), "departures": departures}
    with pytest.raises(InvalidSpec, match=r"status\.pliant"):
        load_state({"pliant": stored})
