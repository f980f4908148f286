from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.frontends.status.engine_state import dump_state, external_message, load_state
from pliant.model.actions import JobStatusUpdate
from pliant.model.job import Job
from pliant.model.state import (
    EngineState,
    GroupState,
    JobOutcome,
    JobPhase,
    ReplicaCounts,
    ReplicaFailure,
    ReplicaOutcome,
    RestartCause,
    TimelineEntry,
)
from tests.builders import NOON, parse_stored, saying
from tests.frontends.raw import raw_group, raw_job

PLAIN = AITrainingJobFrontend().parse(raw_job({"worker": raw_group(), "ps": raw_group()}))
COUNTS = {"worker": ReplicaCounts(size=2, active=1, scheduled=1), "ps": ReplicaCounts(size=1, active=1)}


def a_state(phase: JobPhase = JobPhase.RUNNING, *, after: int = 0, **fields: Any) -> EngineState:
    return EngineState(phase=phase, started_at=NOON, status_written_at=NOON + timedelta(seconds=after), **fields)


def told(
    state: EngineState,
    previous: Mapping[str, Any] | None = None,
    counts: Mapping[str, ReplicaCounts] | None = None,
    job: Job | None = None,
) -> dict[str, Any]:
    return AITrainingJobFrontend().render_status(
        JobStatusUpdate(state=state, replica_counts=counts or {}), previous or {}, job or PLAIN
    )


def rejected(problem: str, previous: Mapping[str, Any] | None = None, now: datetime = NOON) -> dict[str, Any]:
    return AITrainingJobFrontend().add_validation_error(InvalidSpec("spec.x", problem), previous or {}, now)


def test_the_whole_status_in_its_own_words() -> None:
    state = a_state(
        message=saying("all replicas are running"),
        observed_generation=3,
        after=90,
        first_running_at=NOON + timedelta(seconds=30, microseconds=700),
        restart_count=3,
        last_restarted_group="worker",
        groups={"worker": GroupState(attempt=3, restarts_by_cause={RestartCause.APP: 2, RestartCause.NODE: 1})},
    )
    status = told(state, counts=COUNTS)
    assert status.pop("pliant") == dump_state(state)
    assert status == {
        "phase": "Running",
        "reason": "TrainingJobRunning",
        "message": "all replicas are running",
        "ready": "2/3",
        "restarts": 3,
        "conditions": [
            {
                "type": "Running",
                "status": "True",
                "reason": "TrainingJobRunning",
                "message": "all replicas are running",
                "lastProbeTime": "2026-01-01T12:01:30Z",
                "lastTransitionTime": "2026-01-01T12:01:30Z",
                "observedGeneration": 3,
            }
        ],
        "replicaStatuses": {
            "worker": {"pending": 0, "scheduled": 1, "active": 1, "succeeded": 0, "restarting": 0, "failed": 0},
            "ps": {"pending": 0, "scheduled": 0, "active": 1, "succeeded": 0, "restarting": 0, "failed": 0},
        },
        "RestartCount": {"worker": 3, "ps": 0},
        "RestartReplicaName": "worker",
        "restartCauses": {"worker": {"app": 2, "node": 1}},
        "startTime": "2026-01-01T12:00:00Z",
        "startRunningTime": "2026-01-01T12:00:30Z",
        "lastReconcileTime": "2026-01-01T12:01:30Z",
    }


def test_an_ended_job_tells_when() -> None:
    status = told(a_state(JobPhase.SUCCEED, ended_at=NOON + timedelta(hours=1)))
    assert (status["phase"], status["endTime"]) == ("Succeed", "2026-01-01T13:00:00Z")


def test_a_memory_never_written_is_dated_by_its_start() -> None:
    status = told(EngineState(phase=JobPhase.PENDING, started_at=NOON))
    assert status["lastReconcileTime"] == "2026-01-01T12:00:00Z"


def test_conditions_are_a_history_with_the_last_one_true() -> None:
    status: dict[str, Any] = {}
    for second, phase in enumerate((JobPhase.PENDING, JobPhase.CREATING, JobPhase.RUNNING, JobPhase.SUCCEED)):
        status = told(a_state(phase, after=second), status)
    assert [(each["type"], each["status"], each["lastTransitionTime"][-3:]) for each in status["conditions"]] == [
        ("Pending", "False", "00Z"),
        ("Creating", "False", "01Z"),
        ("Running", "False", "02Z"),
        ("Succeed", "True", "03Z"),
    ]


def test_a_phase_entered_again_moves_to_the_end_of_the_history() -> None:
    status: dict[str, Any] = {}
    for second, phase in enumerate((JobPhase.RUNNING, JobPhase.RESTARTING, JobPhase.RUNNING)):
        status = told(a_state(phase, after=second), status)
    assert [(each["type"], each["status"], each["lastTransitionTime"][-3:]) for each in status["conditions"]] == [
        ("Restarting", "False", "01Z"),
        ("Running", "True", "02Z"),
    ]


def test_news_within_a_phase_keep_its_beginning() -> None:
    first = told(a_state(message=saying("one of two")))
    [condition] = told(a_state(message=saying("two of two"), after=5), first)["conditions"]
    assert condition["message"] == "two of two"
    assert (condition["lastTransitionTime"][-3:], condition["lastProbeTime"][-3:]) == ("00Z", "05Z")


def test_the_same_arguments_give_the_same_status_and_again_from_it() -> None:
    state = a_state(message=saying("all replicas are running"))
    before = told(a_state(JobPhase.PENDING))
    after = told(state, before, COUNTS)
    assert told(state, before, COUNTS) == after
    assert told(state, after, COUNTS) == after


@pytest.mark.parametrize("conditions", [None, "none", [None, 3, {"type": 5}, {"status": "True"}]])
def test_conditions_that_are_none_are_left_out(conditions: Any) -> None:
    status = told(a_state(), {"conditions": conditions})
    assert [each["type"] for each in status["conditions"]] == ["Running"]


def test_the_history_is_bounded() -> None:
    long_ago = [{"type": f"Phase{number}", "status": "False"} for number in range(100)]
    status = told(a_state(), {"conditions": long_ago})
    assert len(status["conditions"]) == 32
    assert status["conditions"][-1]["type"] == "Running"


def test_the_elastic_group_answers_for_the_scale_subresource() -> None:
    job = AITrainingJobFrontend().parse(raw_job({"ps": raw_group(), "Worker/GPU": raw_group(maxReplicas=4)}))
    counts = {"Worker/GPU": ReplicaCounts(size=4, active=1, scheduled=1, pending=1, failed=1)}
    status = told(a_state(), counts=counts, job=job)
    assert status["replicas"] == 3
    assert status["selector"] == "TrainingJobName=demo,pliant/job-uid=job-uid,TrainingJobReplicaName=worker-gpu"


def test_a_job_without_an_elastic_group_has_no_scale() -> None:
    job = AITrainingJobFrontend().parse(raw_job({"ps": raw_group(), "worker": raw_group()}))
    assert not {"replicas", "selector"} & told(a_state(), counts=COUNTS, job=job).keys()


def test_a_rejection_shows_the_problem() -> None:
    status = rejected("is wrong")
    assert (status["phase"], status["reason"], status["message"]) == ("Invalid", "InvalidSpec", "spec.x: is wrong")
    [condition] = status["conditions"]
    assert (condition["type"], condition["status"], condition["message"]) == ("Invalid", "True", "spec.x: is wrong")
    assert AITrainingJobFrontend().has_validation_error(status)


def test_a_rejection_keeps_phase_memory_and_history() -> None:
    running = told(a_state(), counts=COUNTS)
    status = rejected("is wrong", running)
    assert (status["phase"], status["pliant"], status["ready"]) == ("Running", running["pliant"], "2/3")
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("Running", "False"),
        ("Invalid", "True"),
    ]


def test_the_same_rejection_is_told_once() -> None:
    first = rejected("is wrong")
    assert rejected("is wrong", first, NOON + timedelta(hours=1)) == first


def test_another_problem_is_told_anew() -> None:
    second = rejected("is wronger", rejected("is wrong"), NOON + timedelta(seconds=9))
    assert second["message"] == "spec.x: is wronger"
    assert len(second["conditions"]) == 1


def test_a_mended_job_takes_the_complaint_back() -> None:
    status = told(a_state(after=9), rejected("is wrong", told(a_state())))
    assert not AITrainingJobFrontend().has_validation_error(status)
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("Invalid", "False"),
        ("Running", "True"),
    ]
    assert status["reason"] == "TrainingJobRunning"


def test_a_job_without_a_status_is_not_rejected() -> None:
    assert not AITrainingJobFrontend().has_validation_error({})


FULL = a_state(
    JobPhase.TERMINATING,
    message=saying("worker-1 exited with code 3"),
    first_running_at=NOON,
    ended_at=NOON + timedelta(microseconds=123),
    outcome=JobOutcome(phase=JobPhase.FAILED, message=saying("worker-1 exited with code 3"), at=NOON),
    groups={
        "worker": GroupState(
            attempt=2,
            job_min_attempt=1,
            group_min_attempt=2,
            index_min_attempts={0: 1, 11: 2},
            replica_outcomes={1: ReplicaOutcome.FAILED},
            restarts_by_cause={RestartCause.APP: 2},
            last_restart_at=NOON,
            restart_streak=2,
        )
    },
    replica_counts=COUNTS,
    last_restarted_group="worker",
    timeline=(
        TimelineEntry(at=NOON, reason="Running"),
        TimelineEntry(at=NOON, reason="Failed", message=saying("code 3")),
    ),
)


def test_the_memory_comes_back_as_it_was_written() -> None:
    raw = raw_job(status=told(FULL, counts=FULL.replica_counts))
    assert parse_stored(AITrainingJobFrontend(), raw).state == FULL


@given(
    st.builds(
        EngineState,
        phase=st.sampled_from(JobPhase),
        started_at=st.just(NOON),
        message=st.builds(saying, st.text(max_size=20)),
        groups=st.dictionaries(
            st.text(min_size=1, max_size=5),
            st.builds(
                GroupState,
                attempt=st.integers(0, 5),
                index_min_attempts=st.dictionaries(st.integers(0, 1000), st.integers(0, 5), max_size=3),
                replica_outcomes=st.dictionaries(st.integers(0, 1000), st.sampled_from(ReplicaOutcome), max_size=3),
                restarts_by_cause=st.dictionaries(st.sampled_from(RestartCause), st.integers(0, 5)),
            ),
            max_size=3,
        ),
    )
)
def test_any_memory_survives_the_way_through_a_status(state: EngineState) -> None:
    assert load_state({"pliant": dump_state(state)}) == state


def test_fields_of_a_newer_memory_are_passed_over() -> None:
    assert load_state({"pliant": {**dump_state(FULL), "mood": "good"}}) == FULL


def test_nothing_is_remembered_about_a_new_job() -> None:
    assert load_state({}) is None
    assert parse_stored(AITrainingJobFrontend(), raw_job(status={"pliant": {}})).state is None


def test_a_job_that_another_operator_ended_stays_ended() -> None:
    status = {
        "phase": "Succeed",
        "conditions": [{"type": "Succeed", "status": "True", "message": "job completed; deleted pods"}],
        "replicaStatuses": None,
        "RestartCount": {"trainer": 2, "ps": 0},
        "RestartReplicaName": "",
        "startTime": "2026-01-01T10:00:00Z",
        "startRunningTime": "2026-01-01T10:01:00Z",
        "endTime": "2026-01-01T11:00:00Z",
    }
    state = parse_stored(AITrainingJobFrontend(), raw_job(status=status)).state
    assert state == EngineState(
        phase=JobPhase.SUCCEED,
        message=external_message("job completed; deleted pods"),
        started_at=NOON.replace(hour=10),
        first_running_at=NOON.replace(hour=10, minute=1),
        ended_at=NOON.replace(hour=11),
        groups={"trainer": GroupState(attempt=2, restarts_by_cause={RestartCause.APP: 2})},
    )


def test_a_job_another_operator_left_under_way_keeps_its_restarts() -> None:
    state = parse_stored(
        AITrainingJobFrontend(), raw_job(status={"phase": "Restarting", "RestartCount": {"worker": 1}})
    ).state
    assert state is not None
    assert (state.phase, state.started_at, state.ended_at) == (JobPhase.PENDING, NOON, None)
    assert state.group("worker").restarts_by_cause == {RestartCause.APP: 1}


@pytest.mark.parametrize(
    "status", [{"phase": ""}, {"phase": "Levitating"}, {"phase": 7}, {"phase": "Running", "startTime": "noon"}, {}]
)
def test_words_that_are_not_ours_are_not_believed(status: dict[str, Any]) -> None:
    assert parse_stored(AITrainingJobFrontend(), raw_job(status=status)).state is None


def test_a_rejected_newcomer_is_a_new_job_once_mended() -> None:
    assert parse_stored(AITrainingJobFrontend(), raw_job(status=rejected("is wrong"))).state is None


def test_only_what_was_written_moves_the_time() -> None:
    state = a_state()
    assert (
        told(state)["lastReconcileTime"]
        != told(replace(state, status_written_at=NOON + timedelta(hours=2)))["lastReconcileTime"]
    )


def test_results_are_told_in_words_of_their_own() -> None:
    failure = ReplicaFailure(
        replica="worker-1",
        attempt=2,
        cause=RestartCause.APP,
        container="aitj-main",
        exit_code=137,
        signal="SIGKILL",
        reason="OOMKilled",
        node="n1",
        at=NOON,
        message="step 4\nout of memory",
    )
    state = EngineState(
        phase=JobPhase.FAILED,
        started_at=NOON,
        root_cause=failure,
        failures=(failure,),
        phase_seconds={JobPhase.PENDING: 1.6, JobPhase.RUNNING: 60.6, JobPhase.SUSPENDED: 10},
    )
    words = AITrainingJobFrontend().render_status(JobStatusUpdate(state=state), {}, PLAIN)
    assert words["rootCause"] == {
        "replica": "worker-1",
        "attempt": 2,
        "cause": "app",
        "container": "aitj-main",
        "exitCode": 137,
        "signal": "SIGKILL",
        "reason": "OOMKilled",
        "node": "n1",
        "time": "2026-01-01T12:00:00Z",
        "message": "step 4\nout of memory",
    }
    assert words["failures"] == [words["rootCause"]]
    assert words["durations"] == {"queued": 1, "running": 60, "suspended": 10, "total": 72}
