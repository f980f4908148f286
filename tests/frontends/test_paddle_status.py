"""How a PaddleJob of paddlepaddle.org tells of itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pliant.embedded.schema import Schema
from pliant.errors import InvalidSpec
from pliant.frontends.paddle.job import PaddleJobFrontend
from pliant.model.actions import JobStatusUpdate
from pliant.model.messages import NO_MESSAGE, MessageReason, message
from pliant.model.state import EngineState, GroupState, JobOutcome, JobPhase, ReplicaCounts, TimelineEntry
from tests.builders import NOON, parse_stored, saying
from tests.frontends.paddle import parsed, raw_job

SCHEMA = Schema.compile(PaddleJobFrontend().crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def told(
    phase: JobPhase = JobPhase.RUNNING,
    *stories: str,
    trainers: ReplicaCounts | None = None,
    size: int = 2,
    verdict: JobOutcome | None = None,
    least: int = 2,
) -> dict[str, Any]:
    """The status of a job with one server and two trainers, after what happened to it."""
    counts = {"pserver": ReplicaCounts(size=1, active=1), "trainer": trainers or ReplicaCounts(size=2, active=2)}
    state = EngineState(
        phase=phase,
        message=saying("all replicas are running"),
        started_at=NOON,
        groups={"trainer": GroupState(applied_size=size), "pserver": GroupState(applied_size=1)},
        timeline=tuple(TimelineEntry(at=NOON, reason=what) for what in stories),
        replica_counts=counts,
        outcome=verdict,
    )
    job = parsed(trainer={"min-instance": least, "max-instance": 6}, pserver={"min-instance": 1})
    return PaddleJobFrontend().render_status(JobStatusUpdate(state=state, replica_counts=counts), {}, job)


@pytest.mark.parametrize(
    ("phase", "word"),
    [
        (JobPhase.PENDING, "creating"),
        (JobPhase.CREATING, "creating"),
        (JobPhase.RUNNING, "running"),
        (JobPhase.RESTARTING, "running"),
        (JobPhase.SUSPENDED, "suspended"),
        (JobPhase.SUCCEED, "succeeded"),
        (JobPhase.FAILED, "failed"),
        (JobPhase.TIMEOUT, "failed"),
        (JobPhase.NODE_FAIL, "failed"),
    ],
)
def test_phases_are_in_the_words_of_old(phase: JobPhase, word: str) -> None:
    assert told(phase)["phase"] == word


def test_members_are_counted_by_role_and_sizes_are_explained() -> None:
    status = told()
    assert status["replica_statuses"] == [
        {"training_resource_type": "PSERVER", "state": "running", "resource_states": {"running": 1}},
        {"training_resource_type": "TRAINER", "state": "running", "resource_states": {"running": 2}},
    ]
    assert (status["ready"], status["replicas"], status["selector"]) == ("3/3", 2, "paddle-job=fit")
    [scaling] = status["scaling"]
    assert (scaling["group"], scaling["size"], scaling["min"], scaling["max"]) == ("trainer", 2, 2, 6)


def test_a_job_is_scaling_until_its_newcomers_are_up() -> None:
    assert told(JobPhase.RUNNING, "Running", "Resized", size=4)["phase"] == "scaling"
    coming = ReplicaCounts(size=4, active=2, pending=2)
    assert told(JobPhase.RUNNING, "Running", "Resized", size=4, trainers=coming)["phase"] == "scaling"
    assert told(JobPhase.RESTARTING, "Running", "Resized", size=4, trainers=coming)["phase"] == "scaling"
    there = ReplicaCounts(size=4, active=3, succeeded=1)
    assert told(JobPhase.RUNNING, "Running", "Resized", size=4, trainers=there)["phase"] == "running"


def test_a_member_that_comes_back_is_no_scaling() -> None:
    coming = ReplicaCounts(size=2, active=1, restarting=1)
    assert told(JobPhase.RESTARTING, "Resized", "Restarting", trainers=coming)["phase"] == "running"


def test_an_end_is_told_when_it_is_decided() -> None:
    verdict = JobOutcome(phase=JobPhase.SUCCEED, message=saying("training completed"), at=NOON + timedelta(minutes=1))
    status = told(JobPhase.TERMINATING, verdict=verdict)
    assert (status["phase"], status["completionTime"]) == ("succeeded", "2026-01-01T12:01:00Z")


def test_warnings_are_part_of_the_reason() -> None:
    said = "spec.trainer.min-instance (9) exceeds max-instance (6): the size is fixed at 9"
    assert told(least=9)["reason"] == f"all replicas are running; {said}"


def test_a_new_job_that_cannot_be_used_has_failed_until_it_is_mended() -> None:
    status = PaddleJobFrontend().add_validation_error(InvalidSpec("spec.port", "is odd"), {}, NOON)
    assert (status["phase"], status["reason"], status["invalid"]) == ("failed", *["spec.port: is odd"] * 2)
    assert parse_stored(PaddleJobFrontend(), raw_job(status=status)).state is None


def test_a_job_under_way_that_is_edited_badly_is_where_it_was() -> None:
    before = told()
    status = PaddleJobFrontend().add_validation_error(InvalidSpec("spec.port", "is odd"), before, NOON)
    assert (status["phase"], status["reason"], status["pliant"]) == ("running", "spec.port: is odd", before["pliant"])
    assert (
        PaddleJobFrontend().add_validation_error(InvalidSpec("spec.port", "is odd"), status, NOON + timedelta(1))
        == status
    )


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ({"phase": "succeeded", "reason": "all trainer have succeeded!"}, JobPhase.SUCCEED),
        ({"phase": "Succeed"}, JobPhase.SUCCEED),
        ({"state": "Failed", "message": "at least one trainer failed!"}, JobPhase.FAILED),
        ({"phase": "Timeout", "startTime": "2026-01-01T11:00:00Z"}, JobPhase.TIMEOUT),
    ],
)
def test_what_ended_under_another_operator_stays_ended(status: dict[str, Any], phase: JobPhase) -> None:
    raw = raw_job(status=status)
    assert SCHEMA.prune(raw) == []
    state = parse_stored(PaddleJobFrontend(), raw).state
    assert state is not None
    said = status.get("reason") or status.get("message") or ""
    reported = message(MessageReason.REPORTED_BY_OTHER_OPERATOR, message=said) if said else NO_MESSAGE
    assert (state.phase, state.message) == (phase, reported)


@pytest.mark.parametrize("status", [{"phase": "running"}, {"phase": ""}, {}])
def test_what_did_not_end_begins_anew(status: dict[str, Any]) -> None:
    assert parse_stored(PaddleJobFrontend(), raw_job(status=status)).state is None


def test_a_program_cannot_change_under_way_but_bounds_can() -> None:
    job = parsed()
    memory = {
        group.name: {"templateHash": group.template_hash, "appliedSize": group.size, "attempt": 0}
        for group in job.groups
    }
    status = {"pliant": {"phase": "Running", "startedAt": "2026-01-01T12:00:00Z", "groups": memory}}
    assert parsed(trainer={"min-instance": 3, "max-instance": 9}, status=status)
    with pytest.raises(InvalidSpec) as refused:
        parsed(trainer={"entrypoint": "other"}, status=status)
    assert str(refused.value).startswith("spec.trainer: cannot change while the job is active: set spec.suspend")
