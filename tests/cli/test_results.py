"""How results are put into words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pliant.cli.jobs import Found
from pliant.cli.results import durations_text, failure_brief, failure_text, message_with_progress, progress_page
from pliant.frontends import FRONTENDS
from pliant.model.state import Cause, EngineState, Failure, Phase, Stage
from tests.builders import NOON, make_job

[AITJ, *_] = FRONTENDS.values()


def failure(**fields: Any) -> Failure:
    return Failure(**{"member": "worker-1", "at": NOON, **fields})


@pytest.mark.parametrize(
    ("found", "text", "brief"),
    [
        (failure(code=3), "worker-1 exited with code 3", "worker-1 exit 3"),
        (
            failure(code=139, signal="SIGSEGV"),
            "worker-1 was killed by SIGSEGV (exit code 139)",
            "worker-1 SIGSEGV",
        ),
        (
            failure(code=137, signal="SIGKILL", reason="OOMKilled"),
            "worker-1 ran out of memory (OOMKilled, exit code 137)",
            "worker-1 OOMKilled",
        ),
        (
            failure(cause=Cause.NODE, node="n1", reason="is gone"),
            "worker-1 was lost: node n1 is gone",
            "worker-1 is gone",
        ),
        (
            failure(cause=Cause.CREATION, container="main", reason="ErrImagePull"),
            "worker-1 could not create container main (ErrImagePull)",
            "worker-1 ErrImagePull",
        ),
        (failure(), "worker-1 failed", "worker-1 failed"),
    ],
)
def test_a_failure_is_told_at_length_and_in_a_word(found: Failure, text: str, brief: str) -> None:
    assert (failure_text(found), failure_brief(found)) == (text, brief)


def test_the_present_phase_counts_until_now() -> None:
    state = EngineState(
        phase=Phase.RUNNING,
        started_at=NOON,
        stage=Stage(phase=Phase.RUNNING, since=NOON),
        spent={Phase.PENDING: 5.0, Phase.RUNNING: 60.0},
    )
    assert durations_text(state, NOON + timedelta(seconds=60)) == "queued 5.0s, running 2m00s; 2m05s in all"


def job(message: str, progress: Any) -> Found:
    raw = {"metadata": {"name": "demo"}, "status": {"progress": progress}}
    state = EngineState(phase=Phase.RUNNING, message=message, started_at=NOON)
    return Found(frontend=AITJ, raw=raw, job=make_job(state=state))


def test_what_members_reported_stands_where_all_is_well_and_beside_everything_else() -> None:
    told = {
        "step": 5,
        "total": 10,
        "metrics": {"loss": "0.5", "odd": "x"},
        "by": "worker-0",
        "at": NOON.isoformat(),
    }
    assert message_with_progress(job("every member runs", told)) == "step 5/10  loss 0.5"
    assert message_with_progress(job("1 member running", told)) == "1 member running; step 5/10  loss 0.5"
    assert message_with_progress(job("every member runs", None)) == "every member runs"
    assert message_with_progress(job("every member runs", {"step": "x"})) == "every member runs"
    later = NOON + timedelta(minutes=1)
    assert progress_page(job("", told), later) == "step 5/10  loss 0.5 (50%), worker-0, 60s ago"
