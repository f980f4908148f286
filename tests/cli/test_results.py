"""How results are put into words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.output.job_summary import (
    failure_text,
    message_with_progress,
    phase_durations_text,
    progress_detail_text,
    short_failure_text,
)
from pliant.frontends import FRONTENDS
from pliant.model.messages import Message, MessageReason, message
from pliant.model.state import EngineState, JobPhase, PhaseStart, ReplicaFailure, RestartCause
from tests.builders import NOON, make_job, saying

[AITJ, *_] = FRONTENDS.values()


def failure(**fields: Any) -> ReplicaFailure:
    return ReplicaFailure(**{"replica": "worker-1", "at": NOON, **fields})


@pytest.mark.parametrize(
    ("found", "text", "brief"),
    [
        (failure(exit_code=3), "worker-1 exited with code 3", "worker-1 exit 3"),
        (
            failure(exit_code=139, signal="SIGSEGV"),
            "worker-1 was killed by SIGSEGV (exit code 139)",
            "worker-1 SIGSEGV",
        ),
        (
            failure(exit_code=137, signal="SIGKILL", reason="OOMKilled"),
            "worker-1 ran out of memory (OOMKilled, exit code 137)",
            "worker-1 OOMKilled",
        ),
        (
            failure(cause=RestartCause.NODE, node="n1", reason="is gone"),
            "worker-1 was lost: node n1 is gone",
            "worker-1 is gone",
        ),
        (
            failure(cause=RestartCause.CREATION, container="main", reason="ErrImagePull"),
            "worker-1 could not create container main (ErrImagePull)",
            "worker-1 ErrImagePull",
        ),
        (failure(), "worker-1 failed", "worker-1 failed"),
    ],
)
def test_a_failure_is_told_at_length_and_in_a_word(found: ReplicaFailure, text: str, brief: str) -> None:
    assert (failure_text(found), short_failure_text(found)) == (text, brief)


def test_the_present_phase_counts_until_now() -> None:
    state = EngineState(
        phase=JobPhase.RUNNING,
        started_at=NOON,
        phase_start=PhaseStart(phase=JobPhase.RUNNING, since=NOON),
        phase_seconds={JobPhase.PENDING: 5.0, JobPhase.RUNNING: 60.0},
    )
    assert phase_durations_text(state, NOON + timedelta(seconds=60)) == "queued 5.0s, running 2m00s; total 2m05s"


ALL_RUNNING = message(MessageReason.ALL_REPLICAS_RUNNING)


def job(message: Message, progress: Any) -> JobObject:
    raw = {"metadata": {"name": "demo"}, "status": {"progress": progress}}
    state = EngineState(phase=JobPhase.RUNNING, message=message, started_at=NOON)
    return JobObject(frontend=AITJ, raw=raw, job=make_job(), state=state)


def test_what_members_reported_stands_where_all_is_well_and_beside_everything_else() -> None:
    told = {
        "step": 5,
        "total": 10,
        "metrics": {"loss": "0.5", "odd": "x"},
        "reportedBy": "worker-0",
        "time": NOON.isoformat(),
    }
    assert message_with_progress(job(ALL_RUNNING, told)) == "step 5/10  loss 0.5"
    assert message_with_progress(job(saying("1 member running"), told)) == "1 member running; step 5/10  loss 0.5"
    assert message_with_progress(job(ALL_RUNNING, None)) == "all replicas are running"
    assert message_with_progress(job(ALL_RUNNING, {"step": "x"})) == "all replicas are running"
    later = NOON + timedelta(minutes=1)
    assert progress_detail_text(job(saying(""), told), later) == "step 5/10  loss 0.5 (50%), worker-0, 60s ago"
