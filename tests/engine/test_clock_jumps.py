"""Time in which the machine slept, or by which its clock was set, does not count for a job."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from msgspec.structs import replace

from pliant.engine.clock import align_timers
from pliant.engine.decide import decide
from pliant.engine.restart.restarts import backoff_left
from pliant.frontends.status.engine_state import dump_state
from pliant.model.actions import Act, Decision, DeleteJob
from pliant.model.observed import Observed, PodPhase
from pliant.model.state import ClockOffset, EngineState, GroupState, JobPhase, PhaseStart, SizeRequest, SizeRequester
from tests.builders import NOON, PlainFramework, StoredJob, make_job, make_pod, seeing
from tests.engine.lives import History, codes_of_some_that_run_on, histories, jobs, live, world_of
from tests.engine.rulings import RUNNING, actions_of, intent_of, is_transition, remembering, verdict_of, wait_of

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
JUMPS = [2 * HOUR, -2 * HOUR, timedelta(days=2), -timedelta(days=2)]
BEFORE = ClockOffset(boot_id="a", seconds=1000.0)
UP = seeing(make_pod(0), make_pod(1))
DOWN = seeing(make_pod(0, PodPhase.SCHEDULED), make_pod(1))


def after(jump: timedelta, boot_id: str = "a") -> ClockOffset:
    return ClockOffset(boot_id=boot_id, seconds=BEFORE.seconds + jump.total_seconds())


def ask(job: StoredJob, seen: Observed, now: datetime, clock: ClockOffset) -> Decision:
    return decide(job, job.state, seen, PlainFramework(), now, clock=clock)


@pytest.mark.parametrize("jump", JUMPS)
def test_time_limit_counts_only_time_in_which_the_machine_was_awake(jump: timedelta) -> None:
    job = make_job(state=replace(RUNNING, clock_offset=BEFORE), time_limit=HOUR)
    decision = ask(job, UP, NOON + 10 * MINUTE + jump, after(jump))
    assert not is_transition(decision)
    assert wait_of(decision) == 50 * MINUTE
    over = ask(job, UP, NOON + HOUR + jump, after(jump))
    assert verdict_of(over).phase is JobPhase.TIMEOUT


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("from_start", [True, False], ids=["activeDeadlineSeconds", "startLimit"])
def test_limits_from_the_start_count_only_time_in_which_the_machine_was_awake(
    jump: timedelta, *, from_start: bool
) -> None:
    state = remembering(JobPhase.CREATING, active_since=None, first_running_at=None, clock_offset=BEFORE)
    limits = {"time_limit": HOUR, "counts_time_from_start": True} if from_start else {"start_limit": HOUR}
    job = make_job(state=state, **limits)
    assert not is_transition(ask(job, DOWN, NOON + 59 * MINUTE + jump, after(jump)))
    assert verdict_of(ask(job, DOWN, NOON + HOUR + jump, after(jump))).phase is JobPhase.TIMEOUT


@pytest.mark.parametrize("jump", JUMPS)
def test_a_job_that_has_ended_is_kept_for_its_whole_ttl(jump: timedelta) -> None:
    ended = remembering(JobPhase.SUCCEED, ended_at=NOON, clock_offset=BEFORE)
    job = make_job(state=ended, ttl_after_finished=HOUR)
    decision = ask(job, Observed(), NOON + MINUTE + jump, after(jump))
    assert isinstance(decision, Act)
    assert (decision.actions, decision.requeue_after) == ((), 59 * MINUTE)
    assert actions_of(ask(job, Observed(), NOON + HOUR + jump, after(jump))) == (DeleteJob(),)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_writes_nothing_until_there_is_something_else_to_write(jump: timedelta) -> None:
    job = make_job(state=replace(RUNNING, clock_offset=BEFORE), time_limit=HOUR)
    (settled,) = [each for each in [ask(job, UP, NOON, BEFORE)] if isinstance(each, Act)]
    state = settled.status.state if settled.status is not None else job.state
    again = ask(make_job(state=state, time_limit=HOUR), UP, NOON + MINUTE + jump, after(jump))
    assert isinstance(again, Act)
    assert again.status is None


@pytest.mark.parametrize("jump", JUMPS)
def test_what_users_see_is_not_moved(jump: timedelta) -> None:
    state = remembering(JobPhase.SUCCEED, ended_at=NOON + MINUTE, resumed_at=NOON, clock_offset=BEFORE)
    moved = align_timers(state, after(jump))
    seen = (state.started_at, state.first_running_at, state.resumed_at, state.ended_at, state.timeline)
    assert (moved.started_at, moved.first_running_at, moved.resumed_at, moved.ended_at, moved.timeline) == seen


@pytest.mark.parametrize("jump", JUMPS)
def test_backoff_and_the_order_of_size_requests_survive(jump: timedelta) -> None:
    old = SizeRequest(size=4, at=NOON)
    group = GroupState(last_restart_at=NOON, restart_streak=5, size_requests={SizeRequester.AUTOSCALER: old}, attempt=5)
    state = remembering(groups={"worker": group}, clock_offset=BEFORE)
    moved = align_timers(state, after(jump)).group("worker")
    now = NOON + timedelta(seconds=3) + jump
    assert backoff_left(moved, now) == backoff_left(group, NOON + timedelta(seconds=3)) == timedelta(seconds=5)
    asked = replace(moved, size_requests={**moved.size_requests, SizeRequester.SPEC: SizeRequest(size=2, at=now)})
    assert asked.latest_requester is SizeRequester.SPEC


def test_time_in_a_phase_does_not_count_sleep() -> None:
    state = remembering(phase_start=PhaseStart(phase=JobPhase.RUNNING, since=NOON), clock_offset=BEFORE)
    job = make_job(state=state, time_limit=HOUR)
    ended = intent_of(ask(job, UP, NOON + 3 * HOUR, after(2 * HOUR)))
    assert ended.phase_seconds == {JobPhase.RUNNING: 3600.0}


@pytest.mark.parametrize(
    "clock", [after(2 * HOUR, boot_id="b"), after(timedelta(seconds=0.5))], ids=["another boot", "a small correction"]
)
def test_offsets_of_another_boot_and_small_corrections_move_nothing(clock: ClockOffset) -> None:
    state = replace(RUNNING, clock_offset=BEFORE)
    moved = align_timers(state, clock)
    assert replace(moved, clock_offset=BEFORE) == state


def test_a_new_job_stores_the_offset_of_its_clock() -> None:
    decision = ask(make_job(), Observed(), NOON, BEFORE)
    assert isinstance(decision, Act) or is_transition(decision)
    state = intent_of(decision) if is_transition(decision) else decision.status.state  # type: ignore[union-attr]
    assert state.clock_offset == BEFORE
    assert dump_state(state)["clockOffset"] == {"bootId": "a", "seconds": 1000.0}


def test_a_state_without_an_offset_takes_the_one_of_the_clock_and_keeps_its_timers() -> None:
    assert align_timers(RUNNING, BEFORE) == EngineState(**{
        **{name: getattr(RUNNING, name) for name in RUNNING.__struct_fields__}, "clock_offset": BEFORE
    })  # fmt: skip


def traced(job: StoredJob, script: list[int], days: History, *, jumps: bool) -> list[object]:
    """What is decided and what becomes of the pods, without times."""
    world = world_of(job, script)
    world.clock, trace = BEFORE, []
    for what, number in days:
        if what == "jump" and jumps:
            world.jump(timedelta(hours=number - 6))
        decision = world.decide()
        trace.append(([(type(each), getattr(each, "name", "")) for each in actions_of(decision)], wait_of(decision)))
        live(world, [(what, number)] if what != "jump" else [], check=lambda world, decision: None)
    return [*trace, [(name, pod.phase, pod.uid) for name, pod in world.pods.items()], world.status_writes]


@given(jobs(), codes_of_some_that_run_on, histories("scale", "suspend", "resume", "drain", "remove", "jump", "jump"))
def test_whatever_happens_a_jump_of_the_clock_changes_no_decision(
    job: StoredJob, script: list[int], days: History
) -> None:
    assert traced(job, script, days, jumps=True) == traced(job, script, days, jumps=False)
