"""How many members a job has: who asks, who wins, and who leaves."""

from __future__ import annotations

from dataclasses import replace as copied
from datetime import timedelta

import pytest
from msgspec.structs import replace as replace_memory

from pliant.model.actions import CreatePod, DeletePod, DeleteService
from pliant.model.job import ReplicaGroup, ResizeMode
from pliant.model.messages import AUTOSCALING_DISABLED, NO_MESSAGE, Message, MessageReason, message
from pliant.model.observed import PodPhase, ScaleRecommendation
from pliant.model.state import (
    EngineState,
    GroupState,
    JobOutcome,
    JobPhase,
    ReplicaOutcome,
    RestartCause,
    SizeAdvice,
    SizeRequest,
    SizeRequester,
)
from tests.builders import NOON, make_group, make_job, make_pod, seeing
from tests.engine.rulings import (
    RUNNING,
    actions_of,
    decided,
    event_of,
    intent_of,
    is_transition,
    names,
    of_workers,
    remembering,
    status_of,
    stored_by,
    update_of,
)


def resized(**changes: tuple[int, int, str]) -> Message:
    """The message about groups that get another size: before, after, and who asked for it."""
    return Message(
        MessageReason.GROUPS_RESIZED,
        {},
        tuple(
            message(MessageReason.GROUP_RESIZED, group=name, before=before, after=after, requestedBy=str(requester))
            for name, (before, after, requester) in changes.items()
        ),
    )


GROWN = Message(
    MessageReason.GROUPS_RESIZED,
    {},
    (
        message(
            MessageReason.GROUP_RESIZED,
            group="worker",
            before=2,
            after=4,
            requestedBy="autoscaler",
            message="2 more fit",
        ),
    ),
)


def test_shrinking_retires_the_highest_index_first_and_its_service_after_it() -> None:
    pods = [make_pod(i) for i in range(4)]
    decision = decided(make_job(make_group(size=2), state=RUNNING), seeing(*pods))
    assert names(decision, DeletePod) == ["demo-worker-3", "demo-worker-2"]
    later = decided(make_job(make_group(size=2), state=RUNNING), seeing(*pods[:2], services=[pod.name for pod in pods]))
    assert names(later, DeleteService) == ["demo-worker-2", "demo-worker-3"]


def test_growing_stays_running_and_creates_the_missing_members() -> None:
    decision = decided(make_job(make_group(size=3), state=RUNNING), seeing(make_pod(0), make_pod(1)))
    assert names(decision, CreatePod) == ["demo-worker-2"]
    assert (update_of(decision) or RUNNING).phase is JobPhase.RUNNING


def test_a_retired_member_that_fails_is_no_failure() -> None:
    retired = make_pod(2, PodPhase.FAILED, code=1)
    decision = decided(make_job(state=RUNNING), seeing(make_pod(0), make_pod(1), retired))
    assert not is_transition(decision)


def asking(
    spec: int | None = None, scale: int | None = None, *, least: int = 0, most: int | None = None
) -> ReplicaGroup:
    """Workers of a size that people ask for in two ways."""
    every = {SizeRequester.SPEC: spec, SizeRequester.SCALE: scale}
    requests = {who: size for who, size in every.items() if size is not None}
    return make_group(size=spec or 1, min_size=least, max_size=most, requested_sizes=requests, is_elastic=True)


def seen_after(*edits: ReplicaGroup) -> EngineState:
    """The memory of a job with two workers after its author's edits, a second apart."""
    pods = seeing(make_pod(0), make_pod(1))
    state = of_workers(applied_size=2, size_requests={SizeRequester.SPEC: SizeRequest(size=2, at=NOON)})
    for number, group in enumerate(edits, 1):
        decision = decided(make_job(group, state=state), pods, NOON + timedelta(seconds=number))
        state = intent_of(decision) if is_transition(decision) else status_of(decision)
    return state


@pytest.mark.parametrize(
    ("edits", "size"),
    [
        ([asking(3)], 3),
        ([asking(2, 5)], 5),
        ([asking(2, 5), asking(3, 5)], 3),
        ([asking(3), asking(3, 5)], 5),
        ([asking(2, 5), asking(3, 5), asking(3, 4)], 4),
        ([asking(4, 5)], 5),
        ([asking(2, 5), asking(2)], 2),
        ([asking(2, 9, most=4)], 4),
        ([asking(2, 0, least=1)], 1),
        ([asking(2, 9, most=2), asking(1, 9, most=2)], 1),
        ([asking(2, 9, most=4), asking(2, 9, most=6)], 6),
        ([asking(2, least=3)], 3),
    ],
    ids=[
        "replicas edited",
        "scaled",
        "scaled, then edited",
        "edited, then scaled",
        "scaled, edited, scaled",
        "both at once: scaling wins",
        "scaling taken back",
        "scaled beyond the most",
        "scaled below the least",
        "scaled in vain, then edited",
        "the most raised afterwards",
        "the least raised above the size",
    ],
)
def test_the_later_edit_wins_within_the_bounds(edits: list[ReplicaGroup], size: int) -> None:
    assert seen_after(*edits).group("worker").applied_size == size


def test_a_request_is_written_at_once_so_that_the_next_one_is_known_to_be_later() -> None:
    state = of_workers(applied_size=2, size_requests={SizeRequester.SPEC: SizeRequest(size=2, at=NOON)})
    busy = replace_memory(state, status_written_at=NOON)
    decision = decided(make_job(asking(2, 9, most=2), state=busy), seeing(make_pod(0), make_pod(1)))
    assert status_of(decision).group("worker").size_requests[SizeRequester.SCALE] == SizeRequest(size=9, at=NOON)


def test_a_resize_is_remembered_and_told_before_it_is_acted_upon() -> None:
    state = of_workers(applied_size=2, size_requests={SizeRequester.SPEC: SizeRequest(size=2, at=NOON)})
    decision = decided(make_job(asking(2, 3), state=state), seeing(make_pod(0), make_pod(1)))
    assert intent_of(decision).phase is JobPhase.RUNNING
    assert intent_of(decision).timeline[-1].reason == "Resized"
    event = event_of(decision)
    assert (event.reason, event.is_warning) == ("Resized", False)
    assert event.message == resized(worker=(2, 3, SizeRequester.SCALE))


def test_who_has_to_leave_is_forgotten() -> None:
    state = of_workers(
        applied_size=3,
        attempt=4,
        size_requests={SizeRequester.SPEC: SizeRequest(size=3, at=NOON)},
        index_min_attempts={0: 2, 2: 4},
        replica_outcomes={1: ReplicaOutcome.SUCCEEDED, 2: ReplicaOutcome.FAILED},
    )
    memory = intent_of(decided(make_job(asking(2), state=state))).group("worker")
    assert (memory.index_min_attempts, memory.replica_outcomes, memory.attempt) == (
        {0: 2},
        {1: ReplicaOutcome.SUCCEEDED},
        4,
    )


@pytest.mark.parametrize("phase", [JobPhase.PENDING, JobPhase.CREATING, JobPhase.RESTARTING, JobPhase.SUSPENDED])
def test_a_job_may_be_resized_in_any_phase_and_stays_in_it(phase: JobPhase) -> None:
    state = remembering(phase, groups={"worker": GroupState(applied_size=2)})
    job = make_job(asking(3), state=state, is_suspended=phase is JobPhase.SUSPENDED)
    assert (intent_of(decided(job)).phase, intent_of(decided(job)).group("worker").applied_size) == (phase, 3)


@pytest.mark.parametrize("phase", [JobPhase.TERMINATING, JobPhase.SUCCEED])
def test_a_job_that_has_ended_is_not_resized(phase: JobPhase) -> None:
    verdict = JobOutcome(phase=JobPhase.SUCCEED, message=NO_MESSAGE, at=NOON)
    state = remembering(phase, groups={"worker": GroupState(applied_size=2)}, outcome=verdict)
    decision = decided(make_job(asking(3), state=state))
    assert not is_transition(decision)
    assert actions_of(decision) == ()


def test_several_groups_are_resized_in_one_step() -> None:
    state = remembering(groups={"ps": GroupState(applied_size=1), "worker": GroupState(applied_size=2)})
    servers = make_group("ps", 2, requested_sizes={SizeRequester.SPEC: 2})
    decision = decided(make_job(servers, asking(1), state=state))
    assert event_of(decision).message == resized(ps=(1, 2, SizeRequester.SPEC), worker=(2, 1, SizeRequester.SPEC))


def test_a_member_that_returns_while_its_old_pod_leaves_waits_for_it_and_costs_nothing() -> None:
    pods = seeing(make_pod(0), make_pod(1), make_pod(2, is_terminating=True))
    state = intent_of(decided(make_job(asking(3), state=of_workers(applied_size=3)), pods))
    assert state.group("worker").restarts_by_cause == {RestartCause.DISRUPTION: 1}
    assert names(decided(make_job(asking(3), state=state), pods), CreatePod) == []


def test_retired_members_of_an_older_generation_hold_up_the_next_one() -> None:
    job = make_job(asking(1), state=of_workers(applied_size=1, attempt=1, job_min_attempt=1))
    assert names(decided(job, seeing(make_pod(2, is_terminating=True))), CreatePod) == []
    assert names(decided(job, seeing(make_pod(2, attempt=1, is_terminating=True))), CreatePod) == ["demo-worker-0"]


def test_a_size_that_nobody_asked_for_follows_the_bounds_both_ways() -> None:
    """Without `replicas` a group has its least size."""
    for least in (3, 1):
        job = make_job(make_group(size=least, min_size=least), state=of_workers(applied_size=2))
        assert intent_of(decided(job)).group("worker").applied_size == least


def test_completion_beats_a_resize() -> None:
    done = seeing(make_pod(0, PodPhase.SUCCEEDED), make_pod(1, PodPhase.SUCCEEDED))
    state = intent_of(decided(make_job(asking(3), state=of_workers(applied_size=2)), done))
    assert (state.phase, state.group("worker").applied_size) == (JobPhase.TERMINATING, 2)


def advised(
    size: int, *, second: int = 1, is_order: bool = True, code: str = "ScaleUp"
) -> dict[str, ScaleRecommendation]:
    """What the autoscaler wants of the workers."""
    at = NOON + timedelta(seconds=second)
    return {
        "worker": ScaleRecommendation(
            advice=SizeAdvice(size=size, reason=code, message="2 more fit", at=at), should_apply=is_order
        )
    }


def automatic(
    spec: int = 2, *, least: int = 2, most: int = 6, resize: ResizeMode = ResizeMode.JOIN, hold: str = ""
) -> ReplicaGroup:
    """Workers whose size the autoscaler may set."""
    return copied(asking(spec, least=least, most=most), is_autoscaled=True, resize_mode=resize, fixed_size_reason=hold)


def after_wishes(*passes: tuple[ReplicaGroup, dict[str, ScaleRecommendation]]) -> EngineState:
    """The memory of a job with two workers after some passes, ten seconds apart, each with what is wanted then."""
    state = of_workers(applied_size=2, size_requests={SizeRequester.SPEC: SizeRequest(size=2, at=NOON)})
    for number, (group, wishes) in enumerate(passes, 1):
        seen = copied(seeing(make_pod(0), make_pod(1)), recommendations=wishes)
        decision = decided(make_job(group, state=state), seen, NOON + timedelta(seconds=10 * number))
        state = stored_by(decision) or state
    return state


def test_the_autoscaler_sets_the_size_of_groups_that_allow_it_and_says_why() -> None:
    state = after_wishes((automatic(), advised(4)))
    assert state.group("worker").applied_size == 4
    assert state.timeline[-1].message == GROWN
    assert after_wishes((asking(2, least=2, most=6), advised(4))).group("worker").applied_size == 2


def test_what_the_autoscaler_asked_for_stands_while_it_is_silent() -> None:
    state = after_wishes((automatic(), advised(4)), (automatic(), {}), (automatic(), {}))
    assert state.group("worker").applied_size == 4


def test_a_later_edit_wins_over_the_autoscaler_until_it_decides_anew() -> None:
    orders = (automatic(), advised(5, second=5))
    edited = (automatic(3), advised(5, second=5))
    assert after_wishes(orders, edited).group("worker").applied_size == 3
    assert after_wishes(orders, edited, (automatic(3), advised(5, second=25))).group("worker").applied_size == 5


def test_the_author_s_size_counts_again_once_the_autoscaler_is_kept_out() -> None:
    state = after_wishes((automatic(), advised(5)), (copied(automatic(), is_autoscaled=False), advised(5)))
    assert state.group("worker").applied_size == 2
    assert state.group("worker").advice is None
    assert state.timeline[-1].message == resized(worker=(5, 2, AUTOSCALING_DISABLED))


def test_an_advice_is_remembered_and_not_acted_upon() -> None:
    memory = after_wishes((automatic(), advised(4, is_order=False))).group("worker")
    assert memory.applied_size == 2
    assert memory.advice is not None
    assert memory.advice.size == 4


def test_an_advice_that_differs_in_its_text_alone_is_no_news() -> None:
    state = after_wishes((automatic(), advised(2, code="InsufficientCapacity")))
    again = replace_memory(advised(2, second=9, code="InsufficientCapacity")["worker"].advice, message="still none")
    seen = copied(seeing(make_pod(0), make_pod(1)), recommendations={"worker": ScaleRecommendation(advice=again)})
    decision = decided(make_job(automatic(), state=state), seen, NOON + timedelta(seconds=60))
    assert not is_transition(decision)
    assert (update_of(decision) or state).group("worker").advice != again


def test_the_autoscaler_keeps_to_the_bounds() -> None:
    assert after_wishes((automatic(), advised(40))).group("worker").applied_size == 6
    assert after_wishes((automatic(), advised(0))).group("worker").applied_size == 2


def test_members_who_must_be_told_start_again_together_at_no_charge() -> None:
    state = after_wishes((automatic(resize=ResizeMode.RESTART), advised(4)))
    memory = state.group("worker")
    assert (memory.applied_size, memory.job_min_attempt, memory.restarts_by_cause, state.restart_count) == (4, 1, {}, 0)
    assert state.phase is JobPhase.RESTARTING
    assert state.message == Message(MessageReason.GROUPS_RESIZED, {"restarts": 1}, GROWN.details)


def test_a_group_that_cannot_be_resized_keeps_its_size_and_says_so_once() -> None:
    held = automatic(4, resize=ResizeMode.FIXED, hold="servers count their trainers")
    state = after_wishes((held, {}))
    assert state.group("worker").applied_size == 2
    assert state.timeline[-1].reason == "ResizeRejected"
    rejected = message(
        MessageReason.GROUP_SIZE_FIXED, group="worker", size=2, rejected=4, cause="servers count their trainers"
    )
    assert state.timeline[-1].message == message(MessageReason.RESIZE_REJECTED, [rejected])
    again = after_wishes((held, {}), (held, {}))
    assert [moment.reason for moment in again.timeline].count("ResizeRejected") == 1


def test_what_is_refused_again_after_it_was_taken_back_is_told_again() -> None:
    held = automatic(4, resize=ResizeMode.FIXED, hold="servers count their trainers")
    state = after_wishes((held, {}), (copied(held, requested_sizes={SizeRequester.SPEC: 2}), {}), (held, {}))
    assert [moment.reason for moment in state.timeline].count("ResizeRejected") == 2


def test_measured_speeds_are_remembered_until_there_are_newer_ones() -> None:
    fast = {"worker": copied(advised(2)["worker"], throughput_by_size={2: 10.0})}
    faster = {"worker": copied(advised(2)["worker"], throughput_by_size={2: 10.0, 4: 18.0})}
    assert after_wishes((automatic(), fast), (automatic(), advised(2))).group("worker").throughput_by_size == {2: 10.0}
    assert after_wishes((automatic(), fast), (automatic(), faster)).group("worker").throughput_by_size == {
        2: 10.0,
        4: 18.0,
    }


def test_what_somebody_asked_for_meanwhile_wins_over_an_order_that_knew_nothing_of_it() -> None:
    known = {"worker": copied(advised(5, second=25)["worker"], observed_at=NOON + timedelta(seconds=5))}
    assert after_wishes((automatic(), {}), (automatic(3), known)).group("worker").applied_size == 3
    later = {"worker": copied(advised(5, second=26)["worker"], observed_at=NOON + timedelta(seconds=20))}
    assert (
        after_wishes((automatic(), {}), (automatic(3), known), (automatic(3), later)).group("worker").applied_size == 5
    )
