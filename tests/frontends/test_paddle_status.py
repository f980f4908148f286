"""How a PaddleJob of paddlepaddle.org tells of itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pliant.embedded.schema import Schema
from pliant.errors import InvalidSpec
from pliant.frontends.paddle.job import PaddleJob
from pliant.model.actions import JobStatus
from pliant.model.state import EngineState, GroupCounts, GroupState, Moment, Phase, Verdict
from tests.builders import NOON
from tests.frontends.paddle import parsed, raw_job

SCHEMA = Schema.compile(PaddleJob().crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def told(
    phase: Phase = Phase.RUNNING,
    *stories: str,
    trainers: GroupCounts | None = None,
    size: int = 2,
    verdict: Verdict | None = None,
    least: int = 2,
) -> dict[str, Any]:
    """The status of a job with one server and two trainers, after what happened to it."""
    counts = {"pserver": GroupCounts(size=1, active=1), "trainer": trainers or GroupCounts(size=2, active=2)}
    state = EngineState(
        phase=phase,
        message="every member runs",
        started_at=NOON,
        groups={"trainer": GroupState(size=size), "pserver": GroupState(size=1)},
        timeline=tuple(Moment(at=NOON, what=what) for what in stories),
        counts=counts,
        verdict=verdict,
    )
    job = parsed(trainer={"min-instance": least, "max-instance": 6}, pserver={"min-instance": 1})
    return PaddleJob().status(JobStatus(state=state, counts=counts), {}, job)


@pytest.mark.parametrize(
    ("phase", "word"),
    [
        (Phase.PENDING, "creating"),
        (Phase.CREATING, "creating"),
        (Phase.RUNNING, "running"),
        (Phase.RESTARTING, "running"),
        (Phase.SUSPENDED, "suspended"),
        (Phase.SUCCEED, "succeeded"),
        (Phase.FAILED, "failed"),
        (Phase.TIMEOUT, "failed"),
        (Phase.NODE_FAIL, "failed"),
    ],
)
def test_phases_are_in_the_words_of_old(phase: Phase, word: str) -> None:
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
    assert told(Phase.RUNNING, "Running", "Resized", size=4)["phase"] == "scaling"
    coming = GroupCounts(size=4, active=2, pending=2)
    assert told(Phase.RUNNING, "Running", "Resized", size=4, trainers=coming)["phase"] == "scaling"
    assert told(Phase.RESTARTING, "Running", "Resized", size=4, trainers=coming)["phase"] == "scaling"
    there = GroupCounts(size=4, active=3, succeeded=1)
    assert told(Phase.RUNNING, "Running", "Resized", size=4, trainers=there)["phase"] == "running"


def test_a_member_that_comes_back_is_no_scaling() -> None:
    coming = GroupCounts(size=2, active=1, restarting=1)
    assert told(Phase.RESTARTING, "Resized", "Restarting", trainers=coming)["phase"] == "running"


def test_an_end_is_told_when_it_is_decided() -> None:
    verdict = Verdict(phase=Phase.SUCCEED, message="training completed", at=NOON + timedelta(minutes=1))
    status = told(Phase.TERMINATING, verdict=verdict)
    assert (status["phase"], status["completionTime"]) == ("succeeded", "2026-01-01T12:01:00Z")


def test_warnings_are_part_of_the_reason() -> None:
    said = "spec.trainer.min-instance (9) is above max-instance (6): there are 9 trainers, and no more"
    assert told(least=9)["reason"] == f"every member runs; {said}"


def test_a_new_job_that_cannot_be_used_has_failed_until_it_is_mended() -> None:
    status = PaddleJob().rejection(InvalidSpec("spec.port", "is odd"), {}, NOON)
    assert (status["phase"], status["reason"], status["invalid"]) == ("failed", *["spec.port: is odd"] * 2)
    assert PaddleJob().parse(raw_job(status=status)).state is None


def test_a_job_under_way_that_is_edited_badly_is_where_it_was() -> None:
    before = told()
    status = PaddleJob().rejection(InvalidSpec("spec.port", "is odd"), before, NOON)
    assert (status["phase"], status["reason"], status["pliant"]) == (
        "running",
        "spec.port: is odd",
        before["pliant"],
    )
    assert PaddleJob().rejection(InvalidSpec("spec.port", "is odd"), status, NOON + timedelta(1)) == status


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ({"phase": "succeeded", "reason": "all trainer have succeeded!"}, Phase.SUCCEED),
        ({"phase": "Succeed"}, Phase.SUCCEED),
        ({"state": "Failed", "message": "at least one trainer failed!"}, Phase.FAILED),
        ({"phase": "Timeout", "startTime": "2026-01-01T11:00:00Z"}, Phase.TIMEOUT),
    ],
)
def test_what_ended_under_another_operator_stays_ended(status: dict[str, Any], phase: Phase) -> None:
    raw = raw_job(status=status)
    assert SCHEMA.prune(raw) == []
    state = PaddleJob().parse(raw).state
    assert state is not None
    assert (state.phase, state.message) == (phase, status.get("reason") or status.get("message") or "")


@pytest.mark.parametrize("status", [{"phase": "running"}, {"phase": ""}, {}])
def test_what_did_not_end_begins_anew(status: dict[str, Any]) -> None:
    assert PaddleJob().parse(raw_job(status=status)).state is None


def test_a_program_cannot_change_under_way_but_bounds_can() -> None:
    job = parsed()
    memory = {
        group.name: {"template": group.fingerprint, "size": group.size, "attempt": 0} for group in job.groups
    }
    status = {"pliant": {"phase": "Running", "startedAt": "2026-01-01T12:00:00Z", "groups": memory}}
    assert parsed(trainer={"min-instance": 3, "max-instance": 9}, status=status)
    with pytest.raises(InvalidSpec) as refused:
        parsed(trainer={"entrypoint": "other"}, status=status)
    assert str(refused.value).startswith(
        "spec.trainer: cannot change while the job is under way: set spec.suspend"
    )
