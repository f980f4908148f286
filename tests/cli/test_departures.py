"""`pliant why` names the replicas that save their state before they leave."""

from __future__ import annotations

from datetime import timedelta

from pliant.cli.explain.departures import explain_departures
from pliant.model.departures import Departure, DepartureReason
from pliant.model.state import EngineState, JobPhase
from tests.builders import NOON


def departing(index: int, *, is_saved: bool = False) -> Departure:
    return Departure(
        request=1,
        reason=DepartureReason.RESIZED,
        group="worker",
        index=index,
        at=NOON,
        deadline=NOON + timedelta(seconds=30),
        acknowledged_at=NOON if is_saved else None,
    )


def test_those_who_have_saved_their_state_and_those_who_have_not_are_named() -> None:
    departures = {"a": departing(2, is_saved=True), "b": departing(3)}
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON, departures=departures)
    assert list(explain_departures(state, NOON + timedelta(seconds=12))) == [
        "Checkpoint request 1 before the resize: worker-2 saved the state; waiting for worker-3, 18s left."
    ]


def test_nothing_is_said_of_jobs_that_nobody_leaves() -> None:
    assert list(explain_departures(EngineState(phase=JobPhase.RUNNING, started_at=NOON), NOON)) == []
