"""Limits in time: until a job runs, while it runs, and how long it is kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pliant.model.actions import Act, Decision, DeleteJob
from pliant.model.job import CleanPodPolicy
from pliant.model.messages import MessageReason, message
from pliant.model.observed import PodPhase
from pliant.model.state import EngineState, JobOutcome, JobPhase
from tests.builders import NOON, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import (
    RUNNING,
    actions_of,
    decided,
    event_of,
    intent_of,
    is_transition,
    remembering,
    status_of,
    verdict_of,
    wait_of,
)

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
UP = seeing(make_pod(0), make_pod(1))


def after(span: timedelta, limit: timedelta | None = HOUR, state: EngineState = RUNNING, **fields: Any) -> Decision:
    return decided(make_job(state=state, time_limit=limit, **fields), UP, NOON + span)


def test_a_job_that_has_run_for_too_long_is_over_and_keeps_nothing() -> None:
    decision = after(HOUR, clean=CleanPodPolicy.NONE)
    cause = message(MessageReason.TIME_LIMIT_EXCEEDED, limit="1:00:00")
    assert verdict_of(decision) == JobOutcome(
        phase=JobPhase.TIMEOUT, message=cause, at=NOON + HOUR, must_delete_all=True
    )
    assert intent_of(decision).phase is JobPhase.TERMINATING
    assert (event_of(decision).reason, event_of(decision).is_warning) == ("Timeout", True)


@pytest.mark.parametrize(
    ("ran", "limit", "left"),
    [
        (59 * MINUTE, HOUR, MINUTE),
        (MINUTE, HOUR, 59 * MINUTE),
        (HOUR, 2 * HOUR, HOUR),
        (100 * HOUR, None, None),
        (MINUTE, MINUTE, timedelta(0)),
        (HOUR, MINUTE, timedelta(0)),
    ],
    ids=["nearly", "just begun", "raised in time", "no limit", "reached", "lowered below what has run"],
)
def test_the_limit_in_force_is_the_one_of_the_moment(
    ran: timedelta, limit: timedelta | None, left: timedelta | None
) -> None:
    decision = after(ran, limit)
    if left == timedelta(0):
        assert verdict_of(decision).phase is JobPhase.TIMEOUT
    else:
        assert not is_transition(decision)
        assert wait_of(decision) == left


def test_a_limit_may_count_from_the_start_whether_members_run_or_not() -> None:
    state = remembering(JobPhase.CREATING)
    waiting = make_job(state=state, time_limit=HOUR, counts_time_from_start=True)
    assert wait_of(decided(waiting, seeing(), NOON + MINUTE)) == 59 * MINUTE
    verdict = verdict_of(decided(waiting, seeing(), NOON + HOUR))
    assert verdict.phase is JobPhase.TIMEOUT
    assert verdict.message == message(MessageReason.DEADLINE_EXCEEDED, limit="1:00:00")
    resumed = make_job(
        state=remembering(JobPhase.CREATING, resumed_at=NOON + HOUR), time_limit=HOUR, counts_time_from_start=True
    )
    assert not is_transition(decided(resumed, seeing(), NOON + HOUR))


def test_time_before_a_suspension_counts_and_time_in_it_does_not() -> None:
    again = remembering(active_seconds_before=40 * 60, active_since=NOON)
    assert wait_of(after(19 * MINUTE, state=again)) == MINUTE
    assert verdict_of(after(20 * MINUTE, state=again)).phase is JobPhase.TIMEOUT
    asleep = remembering(JobPhase.SUSPENDED, active_seconds_before=59 * 60, active_since=None)
    decision = decided(make_job(state=asleep, time_limit=HOUR, is_suspended=True), now=NOON + 100 * HOUR)
    assert not is_transition(decision)
    assert wait_of(decision) is None


@pytest.mark.parametrize("phase", [JobPhase.RUNNING, JobPhase.RESTARTING])
def test_restarts_do_not_stop_the_clock(phase: JobPhase) -> None:
    assert verdict_of(after(HOUR, state=remembering(phase))).phase is JobPhase.TIMEOUT


def test_the_clock_starts_when_all_members_first_run() -> None:
    waiting = EngineState(phase=JobPhase.CREATING, started_at=NOON)
    decision = decided(make_job(state=waiting, time_limit=MINUTE), seeing(make_pod(0)), NOON + HOUR)
    assert not is_transition(decision)
    running = decided(make_job(state=waiting, time_limit=MINUTE), UP, NOON + HOUR)
    assert status_of(running).active_since == NOON + HOUR


@pytest.mark.parametrize("reason", ["completed", "failed", "restarted"])
def test_what_is_due_besides_comes_first(reason: str) -> None:
    """Time is the last thing to be asked about."""
    end = PodPhase.SUCCEEDED if reason == "completed" else PodPhase.FAILED
    code = None if reason == "completed" else 1
    group = make_group(restart=restarting() if reason == "restarted" else None)
    seen = seeing(*(make_pod(i, end, code=code) for i in range(2)))
    state = intent_of(decided(make_job(group, state=RUNNING, time_limit=HOUR), seen, NOON + HOUR))
    assert (state.outcome.phase if state.outcome else state.phase) is {
        "completed": JobPhase.SUCCEED,
        "failed": JobPhase.FAILED,
        "restarted": JobPhase.RESTARTING,
    }[reason]


COMING_UP = EngineState(phase=JobPhase.PENDING, started_at=NOON)


@pytest.mark.parametrize("phase", [JobPhase.PENDING, JobPhase.CREATING, JobPhase.RESTARTING])
def test_a_job_that_never_came_up_is_over_in_time(phase: JobPhase) -> None:
    state = remembering(phase, active_since=None, first_running_at=None)
    job = make_job(state=state, start_limit=MINUTE)
    assert wait_of(decided(job, seeing(make_pod(0)), NOON + MINUTE / 2)) == MINUTE / 2
    verdict = verdict_of(decided(job, seeing(make_pod(0)), NOON + MINUTE))
    assert (verdict.phase, verdict.must_delete_all) == (JobPhase.TIMEOUT, True)
    assert verdict.message == message(MessageReason.START_LIMIT_EXCEEDED, [state.message], limit="0:01:00")


def test_the_limit_for_coming_up_is_known_from_the_first_look() -> None:
    assert wait_of(decided(make_job(start_limit=MINUTE))) == MINUTE


def test_a_job_that_ran_once_has_come_up() -> None:
    job = make_job(state=remembering(JobPhase.RESTARTING), start_limit=MINUTE)
    assert not is_transition(decided(job, seeing(make_pod(0)), NOON + HOUR))


def test_the_limit_for_coming_up_begins_anew_on_resuming() -> None:
    state = remembering(JobPhase.PENDING, active_since=None, resumed_at=NOON + HOUR)
    job = make_job(state=state, start_limit=MINUTE)
    assert wait_of(decided(job, seeing(make_pod(0)), NOON + HOUR)) == MINUTE
    assert verdict_of(decided(job, seeing(make_pod(0)), NOON + HOUR + MINUTE)).phase is JobPhase.TIMEOUT


@pytest.mark.parametrize(
    "phase", [JobPhase.SUCCEED, JobPhase.FAILED, JobPhase.TIMEOUT, JobPhase.PREEMPTED, JobPhase.NODE_FAIL]
)
def test_a_job_that_has_ended_is_kept_for_as_long_as_it_says(phase: JobPhase) -> None:
    job = make_job(state=remembering(phase, ended_at=NOON), ttl_after_finished=MINUTE)
    assert wait_of(decided(job, now=NOON + MINUTE / 3)) == 2 * MINUTE / 3
    assert decided(job, now=NOON + MINUTE) == Act(actions=(DeleteJob(),))


def test_a_job_without_a_time_to_live_is_kept_for_ever() -> None:
    assert decided(make_job(state=remembering(JobPhase.SUCCEED, ended_at=NOON)), now=NOON + 9999 * HOUR) == Act()


def test_a_time_to_live_of_nothing_takes_the_job_away_at_once() -> None:
    job = make_job(state=remembering(JobPhase.SUCCEED, ended_at=NOON), ttl_after_finished=timedelta(0))
    assert actions_of(decided(job)) == (DeleteJob(),)


def test_a_job_under_way_has_no_time_to_live() -> None:
    job = make_job(state=RUNNING, ttl_after_finished=timedelta(0))
    assert actions_of(decided(job, UP, NOON + HOUR)) == ()
