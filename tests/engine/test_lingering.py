"""Pods that should be gone and are not: what people are told, and when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pliant.model.messages import Message, MessageReason, message
from pliant.model.observed import ObservedPod
from pliant.model.state import JobOutcome, JobPhase
from tests.builders import NOON, make_job, make_pod, seeing
from tests.engine.rulings import decided, of_workers, remembering, status_of, update_of, wait_of

SOON = NOON + timedelta(seconds=5)
LATE = NOON + timedelta(seconds=10)
HELD = message(MessageReason.BLOCKED_BY_FINALIZER, pod="demo-worker-1", finalizers="example.com/hold")
BY_NODE = message(MessageReason.BLOCKED_BY_NODE, pod="demo-worker-1", node="n1")
COMPLETED = message(MessageReason.TRAINING_COMPLETED)


def leaving(index: int = 1, **fields: Any) -> ObservedPod:
    """A pod that was to be gone at noon."""
    return make_pod(
        index, is_terminating=True, deletion_deadline=NOON, **{"finalizers": ("example.com/hold",), **fields}
    )


def test_a_job_that_cannot_end_says_what_it_waits_for_and_ends_with_its_own_words() -> None:
    verdict = JobOutcome(phase=JobPhase.SUCCEED, message=COMPLETED, at=NOON)
    state = remembering(JobPhase.TERMINATING, message=COMPLETED, outcome=verdict)
    early = decided(make_job(state=state), seeing(leaving()), SOON)
    assert update_of(early) is None
    assert wait_of(early) == timedelta(seconds=5)
    told = status_of(decided(make_job(state=state), seeing(leaving()), LATE))
    waiting = message(MessageReason.PODS_NOT_TERMINATING, [HELD])
    assert told.message == message(MessageReason.WAITING_FOR_TERMINATION, [COMPLETED, waiting])
    again = decided(make_job(state=told), seeing(leaving()), LATE + timedelta(seconds=9))
    assert update_of(again) is None
    ended = status_of(decided(make_job(state=told), seeing(), LATE + timedelta(seconds=9)))
    assert (ended.phase, ended.message) == (JobPhase.SUCCEED, COMPLETED)


def test_a_suspended_job_says_which_pod_does_not_go() -> None:
    told = status_of(
        decided(make_job(state=remembering(JobPhase.SUSPENDED), is_suspended=True), seeing(leaving()), LATE)
    )
    assert told.message == message(MessageReason.SUSPENDED, [HELD], pods=1)


@pytest.mark.parametrize(("pod", "why"), [(leaving(), HELD), (leaving(finalizers=(), node="n1"), BY_NODE)])
def test_a_restart_says_which_old_pod_it_waits_for(pod: ObservedPod, why: Message) -> None:
    state = of_workers(JobPhase.RESTARTING, attempt=1, job_min_attempt=1, applied_size=2)
    told = status_of(decided(make_job(state=state), seeing(pod), LATE))
    assert told.message == message(MessageReason.DEGRADED, [message(MessageReason.PODS_NOT_TERMINATING, [why])])
