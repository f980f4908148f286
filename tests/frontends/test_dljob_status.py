"""What a status tells of each replica: how it is, how it ended, how often it came back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.dl.mpba import MpbaMXJob
from pliant.frontends.dl.status import MAX_REPLICA_STATUSES
from pliant.model.actions import JobStatusUpdate
from pliant.model.observed import ObservedPod, PodExit, PodPhase
from pliant.model.state import EngineState, JobOutcome, JobPhase, ReplicaCounts, ReplicaFailure
from tests.builders import NOON, saying
from tests.frontends.test_dljob import raw, replica

JOB = MpbaMXJob().parse(raw(replica("SCHEDULER"), replica("SERVER"), replica("WORKER", 2)))
COUNTS = {
    "scheduler": ReplicaCounts(size=1, active=1),
    "server": ReplicaCounts(size=1),
    "worker": ReplicaCounts(size=2),
}
LATER = NOON + timedelta(seconds=83)


def pod(index: int, phase: PodPhase = PodPhase.RUNNING, **fields: Any) -> ObservedPod:
    name = f"worker-demo-{index}"
    made = ObservedPod(name=name, uid=name, group="worker", index=index, attempt=0, phase=phase, started_at=NOON)
    return replace(made, **fields)


def killed(index: int, **fields: Any) -> ObservedPod:
    end = PodExit(code=137, reason="OOMKilled", message="no memory left", container="main")
    return pod(index, PodPhase.FAILED, exit=end, finished_at=LATER, node="here", **fields)


def told(*pods: ObservedPod, previous: dict[str, Any] | None = None, **state: Any) -> dict[str, Any]:
    memory = EngineState(**{"phase": JobPhase.RUNNING, "started_at": NOON, "status_written_at": LATER, **state})
    return MpbaMXJob().render_status(
        JobStatusUpdate(state=memory, replica_counts=COUNTS, observed_pods=pods), previous or {}, JOB
    )


def row(status: dict[str, Any], name: str = "worker-demo-1") -> dict[str, Any]:
    return next(each for each in status["replicaStatuses"] if each["name"] == name)


def test_a_replica_that_ended_badly_is_told_with_code_signal_reason_and_last_words() -> None:
    status = told(pod(0), killed(1))
    assert row(status) == {
        "name": "worker-demo-1",
        "replicaType": "worker",
        "index": 1,
        "phase": "Failed",
        "node": "here",
        "startTime": "2026-01-01T12:00:00Z",
        "completionTime": "2026-01-01T12:01:23Z",
        "duration": "1m23s",
        "lastExit": {
            "exitCode": 137,
            "signal": "SIGKILL",
            "reason": "OOMKilled",
            "message": "no memory left",
            "time": "2026-01-01T12:01:23Z",
        },
    }
    assert row(status, "worker-demo-0")["phase"] == "Running"
    assert row(status, "server-demo-0") == {"name": "server-demo-0", "replicaType": "server", "phase": "Pending"}


def test_a_replica_that_came_back_still_tells_how_it_ended_before() -> None:
    before = told(killed(1))
    between = told(previous=before, phase=JobPhase.RESTARTING)
    assert row(between)["phase"] == "Pending"
    again = row(told(pod(1, attempt=1), previous=between))
    assert (again["phase"], again["restarts"], again["lastExit"]["exitCode"]) == ("Running", 1, 137)
    assert "duration" not in again
    done = row(told(pod(1, PodPhase.SUCCEEDED, attempt=1, finished_at=LATER), previous=told(pod(1, attempt=1))))
    assert done["lastExit"] == {"exitCode": 0, "reason": "Completed", "time": "2026-01-01T12:01:23Z"}


def test_what_a_replica_does_on_its_way_out_does_not_count() -> None:
    verdict = JobOutcome(phase=JobPhase.SUCCEED, message=saying("training completed"), at=LATER)
    before = told(pod(0), pod(1))
    after = told(killed(0, is_terminating=True), previous=before, phase=JobPhase.TERMINATING, outcome=verdict)
    assert [row(after, f"worker-demo-{index}")["phase"] for index in (0, 1)] == ["Stopped", "Stopped"]
    assert "lastExit" not in row(after, "worker-demo-0")


def test_an_end_that_is_decided_is_told_at_once_with_its_duration_and_its_first_cause() -> None:
    verdict = JobOutcome(phase=JobPhase.FAILED, message=saying("worker-1 was killed"), at=LATER)
    cause = ReplicaFailure(replica="worker-1", exit_code=137, signal="SIGKILL", reason="OOMKilled", at=LATER)
    status = told(
        killed(1), phase=JobPhase.TERMINATING, message=saying("worker-1 was killed"), outcome=verdict, root_cause=cause
    )
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "MXJobFailed", "worker-1 was killed")
    assert (status["completionTime"], status["duration"]) == ("2026-01-01T12:01:23Z", "1m23s")
    assert status["rootCause"]["replica"] == "worker-1"
    assert status["conditions"][-1]["type"] == "Failed"
    well = told(
        phase=JobPhase.TERMINATING, outcome=JobOutcome(phase=JobPhase.SUCCEED, message=saying("done"), at=LATER)
    )
    assert (well["phase"], well["conditions"][-1]["type"]) == ("Succeeded", "Succeeded")


def test_counts_are_told_by_type() -> None:
    status = told()
    assert status["ready"] == "1/4"
    assert status["replicaTypes"]["scheduler"] == {"active": 1, "pending": 0, "succeeded": 0, "failed": 0}


def test_of_very_many_replicas_those_with_something_to_tell_are_told() -> None:
    job = MpbaMXJob().parse(raw(replica("scheduler"), replica("server"), replica("worker", 1000)))
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON)
    status = MpbaMXJob().render_status(JobStatusUpdate(state=state, observed_pods=(killed(998),)), {}, job)
    rows = status["replicaStatuses"]
    assert len(rows) == MAX_REPLICA_STATUSES
    assert rows[-1]["name"] == "worker-demo-998"


def test_where_nobody_looked_what_was_told_stays() -> None:
    before = told(killed(1))
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON)
    status = MpbaMXJob().render_status(JobStatusUpdate(state=state, replica_counts=COUNTS), before, JOB)
    assert status["replicaStatuses"] == before["replicaStatuses"]
    strange = {"replicaStatuses": [5, {"name": 7}], "conditions": 3}
    assert (
        MpbaMXJob()
        .render_status(JobStatusUpdate(state=state, replica_counts=COUNTS), strange, JOB)
        .get("replicaStatuses", [])
        == []
    )


def test_a_problem_is_told_and_what_is_remembered_stays() -> None:
    before = told(pod(0))
    rejected = MpbaMXJob().add_validation_error(InvalidSpec("spec[0].replicaType", "is wrong"), before, LATER)
    assert rejected["message"] == "spec[0].replicaType: is wrong"
    assert MpbaMXJob().has_validation_error(rejected)
    assert not MpbaMXJob().has_validation_error(before)
    assert rejected["pliant"] == before["pliant"]
