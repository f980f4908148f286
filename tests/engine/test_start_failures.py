"""Programs that can never start: noticed by how and when they end, and given up where restarts are limited."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pliant.model.job import EndPolicy, RestartPolicy, RestartScope
from pliant.model.messages import MessageReason
from pliant.model.observed import NodeFault, ObservedPod, PodExit, PodPhase
from pliant.model.state import EngineState, JobPhase, StartFailure
from tests.builders import NOON, StoredJob, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import RUNNING, decided, intent_of, is_transition, status_of, verdict_of

NO_MODULE = "ModuleNotFoundError: No module named 'torch'"
SECOND = timedelta(seconds=1)


def ended(index: int = 0, attempt: int = 0, *, said: str = NO_MODULE, lasted: int = 1, **fields: Any) -> ObservedPod:
    """A pod whose program ended with these last words after so many seconds."""
    end = PodExit(code=1, reason="Error", message=said.splitlines()[-1] if said else "", last_log_lines=said)
    times = {"started_at": NOON - lasted * SECOND, "finished_at": NOON}
    pod = make_pod(index, PodPhase.FAILED, attempt=attempt)
    return replace(pod, **{"exit": end, **times, **fields})


def a_job(size: int = 1, *, limit: int | None = 9, scope: RestartScope = RestartScope.POD, **fields: Any) -> StoredJob:
    rule = restarting(scope, limit=limit, policy=RestartPolicy.ON_FAILURE)
    return make_job(make_group(size=size, restart=rule, **fields), state=RUNNING)


def after(job: StoredJob, *pods: ObservedPod) -> StoredJob:
    """The job once the restart that follows from these pods is decided."""
    return replace(job, state=intent_of(decided(job, seeing(*pods))))


def start_failure(job: StoredJob) -> StartFailure | None:
    assert isinstance(job.state, EngineState)
    return job.state.group("worker").start_failure


@pytest.mark.parametrize(
    ("pod", "cause"),
    [
        (ended(), NO_MODULE),
        (ended(said=f"Traceback\n{NO_MODULE}\n[wrapper] bye"), NO_MODULE),
        (ended(said="python3: can't open file '/a.py': [Errno 2] No such file"), "python3: can't open file '/a.py'"),
        (ended(said="sh: 1: ./train: Exec format error"), "sh: 1: ./train: Exec format error"),
        (ended(exit=PodExit(code=127, message="")), "exit code 127"),
        (ended(exit=PodExit(code=128, reason="StartError", message="exec: no"), started_at=None), "exec: no"),
        (ended(lasted=3), ""),
        (ended(said="ConnectionRefusedError: [Errno 111] Connection refused"), ""),
        (ended(said="FileNotFoundError: [Errno 2] No such file or directory: '/data/train.csv'"), ""),
        (ended(started_at=None), ""),
    ],
)
def test_what_keeps_a_program_from_starting_is_recorded(pod: ObservedPod, cause: str) -> None:
    found = start_failure(after(a_job(), pod))
    assert (found.cause if found else "").startswith(cause)
    assert (found is not None) is bool(cause)


def test_the_third_time_in_a_row_ends_the_job_with_a_reason_of_its_own() -> None:
    job = after(a_job(), ended())
    job = after(job, ended(attempt=1))
    assert start_failure(job) == StartFailure(cause=NO_MODULE, count=2, attempt=2)
    verdict = verdict_of(decided(job, seeing(ended(attempt=2))))
    assert verdict.phase is JobPhase.FAILED
    (cause,) = verdict.message.details
    assert (cause.reason, cause.parameters) == (MessageReason.PROGRAM_CANNOT_START, {"count": 3})
    assert cause.details[0].reason == MessageReason.REPLICA_EXITED


@pytest.mark.parametrize("scope", RestartScope)
def test_replicas_that_fail_together_count_once(scope: RestartScope) -> None:
    job = after(a_job(2, scope=scope), ended(0), ended(1))
    found = start_failure(job)
    assert found is not None
    assert found.count == 1
    assert isinstance(job.state, EngineState)
    attempts = [job.state.group("worker").min_attempt(index) for index in (0, 1)]
    job = after(job, *(ended(index, attempt) for index, attempt in enumerate(attempts)))
    found = start_failure(job)
    assert found is not None
    assert found.count == 2


@pytest.mark.parametrize(
    ("pod", "count"),
    [
        (ended(attempt=1, lasted=60, said="boom"), 0),  # it has started by now
        (ended(attempt=1, said="No module named 'numpy'"), 1),  # another cause
        (ended(attempt=1, said="ConnectionRefusedError"), 1),  # perhaps only because a peer does not start
    ],
)
def test_only_the_same_end_in_a_row_counts(pod: ObservedPod, count: int) -> None:
    found = start_failure(after(after(a_job(), ended()), pod))
    assert (found.count if found else 0) == count


def test_a_failure_on_a_faulty_node_says_nothing_about_the_program() -> None:
    fault = NodeFault(description="has a device fault", since=NOON, is_dead=False)
    assert start_failure(after(a_job(), ended(node_fault=fault))) is None


def test_where_restarts_are_not_limited_they_go_on_with_growing_back_off() -> None:
    job = a_job(limit=None)
    for attempt in range(4):
        job = after(job, ended(attempt=attempt))
    assert isinstance(job.state, EngineState)
    assert job.state.group("worker").restart_streak == 4
    found = start_failure(job)
    assert found is not None
    assert found.count == 4


def test_a_job_limit_counts_as_a_limit() -> None:
    job = replace(a_job(limit=None), restart_limit=9)
    for attempt in range(2):
        job = after(job, ended(attempt=attempt))
    assert verdict_of(decided(job, seeing(ended(attempt=2)))).phase is JobPhase.FAILED


def test_a_job_that_need_not_fail_goes_on_without_the_replica() -> None:
    job = a_job(2, fail=EndPolicy.RANK0)
    for attempt in range(2):
        job = after(job, make_pod(0), ended(1, attempt))
    decision = decided(job, seeing(make_pod(0), ended(1, 2)))
    assert not is_transition(decision)
    assert status_of(decision).replica_counts["worker"].failed == 1
