from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends.aitrainingjob import AITrainingJob
from pliant.frontends.memory import blob_of, remembered
from pliant.model.actions import JobStatus
from pliant.model.job import Job
from pliant.model.state import (
    Cause,
    EngineState,
    Failure,
    GroupCounts,
    GroupState,
    Moment,
    Outcome,
    Phase,
    Verdict,
)
from tests.builders import NOON
from tests.frontends.raw import raw_group, raw_job

PLAIN = AITrainingJob().parse(raw_job({"worker": raw_group(), "ps": raw_group()}))
COUNTS = {"worker": GroupCounts(size=2, active=1, scheduled=1), "ps": GroupCounts(size=1, active=1)}


def a_state(phase: Phase = Phase.RUNNING, *, after: int = 0, **fields: Any) -> EngineState:
    return EngineState(phase=phase, started_at=NOON, written_at=NOON + timedelta(seconds=after), **fields)


def told(
    state: EngineState,
    previous: Mapping[str, Any] | None = None,
    counts: Mapping[str, GroupCounts] | None = None,
    job: Job | None = None,
) -> dict[str, Any]:
    return AITrainingJob().status(JobStatus(state=state, counts=counts or {}), previous or {}, job or PLAIN)


def rejected(problem: str, previous: Mapping[str, Any] | None = None, now: datetime = NOON) -> dict[str, Any]:
    return AITrainingJob().rejection(InvalidSpec("spec.x", problem), previous or {}, now)


def test_the_whole_status_in_its_own_words() -> None:
    state = a_state(
        message="every member runs",
        after=90,
        running_at=NOON + timedelta(seconds=30, microseconds=700),
        restarts=3,
        restarted_group="worker",
        groups={"worker": GroupState(attempt=3, restarts={Cause.APP: 2, Cause.NODE: 1})},
    )
    status = told(state, counts=COUNTS)
    assert status.pop("pliant") == blob_of(state)
    assert status == {
        "phase": "Running",
        "reason": "TrainingJobRunning",
        "message": "every member runs",
        "ready": "2/3",
        "restarts": 3,
        "conditions": [
            {
                "type": "Running",
                "status": "True",
                "reason": "TrainingJobRunning",
                "message": "every member runs",
                "lastProbeTime": "2026-01-01T12:01:30Z",
                "lastTransitionTime": "2026-01-01T12:01:30Z",
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
    status = told(a_state(Phase.SUCCEED, ended_at=NOON + timedelta(hours=1)))
    assert (status["phase"], status["endTime"]) == ("Succeed", "2026-01-01T13:00:00Z")


def test_a_memory_never_written_is_dated_by_its_start() -> None:
    status = told(EngineState(phase=Phase.PENDING, started_at=NOON))
    assert status["lastReconcileTime"] == "2026-01-01T12:00:00Z"


def test_conditions_are_a_history_with_the_last_one_true() -> None:
    status: dict[str, Any] = {}
    for second, phase in enumerate((Phase.PENDING, Phase.CREATING, Phase.RUNNING, Phase.SUCCEED)):
        status = told(a_state(phase, after=second), status)
    assert [(each["type"], each["status"], each["lastTransitionTime"][-3:]) for each in status["conditions"]] == [
        ("Pending", "False", "00Z"),
        ("Creating", "False", "01Z"),
        ("Running", "False", "02Z"),
        ("Succeed", "True", "03Z"),
    ]


def test_a_phase_entered_again_moves_to_the_end_of_the_history() -> None:
    status: dict[str, Any] = {}
    for second, phase in enumerate((Phase.RUNNING, Phase.RESTARTING, Phase.RUNNING)):
        status = told(a_state(phase, after=second), status)
    assert [(each["type"], each["status"], each["lastTransitionTime"][-3:]) for each in status["conditions"]] == [
        ("Restarting", "False", "01Z"),
        ("Running", "True", "02Z"),
    ]


def test_news_within_a_phase_keep_its_beginning() -> None:
    first = told(a_state(message="one of two"))
    [condition] = told(a_state(message="two of two", after=5), first)["conditions"]
    assert condition["message"] == "two of two"
    assert (condition["lastTransitionTime"][-3:], condition["lastProbeTime"][-3:]) == ("00Z", "05Z")


def test_the_same_arguments_give_the_same_status_and_again_from_it() -> None:
    state = a_state(message="every member runs")
    before = told(a_state(Phase.PENDING))
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
    job = AITrainingJob().parse(raw_job({"ps": raw_group(), "Worker/GPU": raw_group(maxReplicas=4)}))
    counts = {"Worker/GPU": GroupCounts(size=4, active=1, scheduled=1, pending=1, failed=1)}
    status = told(a_state(), counts=counts, job=job)
    assert status["replicas"] == 3
    assert status["selector"] == "TrainingJobName=demo,TrainingJobReplicaName=worker-gpu"


def test_a_job_without_an_elastic_group_has_no_scale() -> None:
    job = AITrainingJob().parse(raw_job({"ps": raw_group(), "worker": raw_group()}))
    assert not {"replicas", "selector"} & told(a_state(), counts=COUNTS, job=job).keys()


def test_a_rejection_shows_the_problem() -> None:
    status = rejected("is wrong")
    assert (status["phase"], status["reason"], status["message"]) == ("", "InvalidSpec", "spec.x: is wrong")
    [condition] = status["conditions"]
    assert (condition["type"], condition["status"], condition["message"]) == (
        "Invalid",
        "True",
        "spec.x: is wrong",
    )
    assert AITrainingJob().is_rejected(status)


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
    assert not AITrainingJob().is_rejected(status)
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("Invalid", "False"),
        ("Running", "True"),
    ]
    assert status["reason"] == "TrainingJobRunning"


def test_a_job_without_a_status_is_not_rejected() -> None:
    assert not AITrainingJob().is_rejected({})


FULL = a_state(
    Phase.TERMINATING,
    message="worker-1 exited with code 3",
    running_at=NOON,
    ended_at=NOON + timedelta(microseconds=123),
    verdict=Verdict(phase=Phase.FAILED, message="worker-1 exited with code 3", at=NOON),
    groups={
        "worker": GroupState(
            attempt=2,
            job_floor=1,
            group_floor=2,
            index_floors={0: 1, 11: 2},
            finished={1: Outcome.FAILED},
            restarts={Cause.APP: 2},
            restarted_at=NOON,
            streak=2,
        )
    },
    counts=COUNTS,
    restarted_group="worker",
    timeline=(Moment(at=NOON, what="Running"), Moment(at=NOON, what="Failed", why="code 3")),
)


def test_the_memory_comes_back_as_it_was_written() -> None:
    raw = raw_job(status=told(FULL, counts=FULL.counts))
    assert AITrainingJob().parse(raw).state == FULL


@given(
    st.builds(
        EngineState,
        phase=st.sampled_from(Phase),
        started_at=st.just(NOON),
        message=st.text(max_size=20),
        groups=st.dictionaries(
            st.text(min_size=1, max_size=5),
            st.builds(
                GroupState,
                attempt=st.integers(0, 5),
                index_floors=st.dictionaries(st.integers(0, 1000), st.integers(0, 5), max_size=3),
                finished=st.dictionaries(st.integers(0, 1000), st.sampled_from(Outcome), max_size=3),
                restarts=st.dictionaries(st.sampled_from(Cause), st.integers(0, 5)),
            ),
            max_size=3,
        ),
    )
)
def test_any_memory_survives_the_way_through_a_status(state: EngineState) -> None:
    assert remembered({"pliant": blob_of(state)}) == state


def test_fields_of_a_newer_memory_are_passed_over() -> None:
    assert remembered({"pliant": {**blob_of(FULL), "mood": "good"}}) == FULL


def test_nothing_is_remembered_about_a_new_job() -> None:
    assert remembered({}) is None
    assert AITrainingJob().parse(raw_job(status={"pliant": {}})).state is None


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
    state = AITrainingJob().parse(raw_job(status=status)).state
    assert state == EngineState(
        phase=Phase.SUCCEED,
        message="job completed; deleted pods",
        started_at=NOON.replace(hour=10),
        running_at=NOON.replace(hour=10, minute=1),
        ended_at=NOON.replace(hour=11),
        groups={"trainer": GroupState(attempt=2, restarts={Cause.APP: 2})},
    )


def test_a_job_another_operator_left_under_way_keeps_its_restarts() -> None:
    state = AITrainingJob().parse(raw_job(status={"phase": "Restarting", "RestartCount": {"worker": 1}})).state
    assert state is not None
    assert (state.phase, state.started_at, state.ended_at) == (Phase.PENDING, NOON, None)
    assert state.group("worker").restarts == {Cause.APP: 1}


@pytest.mark.parametrize(
    "status", [{"phase": ""}, {"phase": "Levitating"}, {"phase": 7}, {"phase": "Running", "startTime": "noon"}, {}]
)
def test_words_that_are_not_ours_are_not_believed(status: dict[str, Any]) -> None:
    assert AITrainingJob().parse(raw_job(status=status)).state is None


def test_a_rejected_newcomer_is_a_new_job_once_mended() -> None:
    assert AITrainingJob().parse(raw_job(status=rejected("is wrong"))).state is None


def test_only_what_was_written_moves_the_time() -> None:
    state = a_state()
    assert (
        told(state)["lastReconcileTime"]
        != told(replace(state, written_at=NOON + timedelta(hours=2)))["lastReconcileTime"]
    )


def test_results_are_told_in_words_of_their_own() -> None:
    failure = Failure(
        member="worker-1",
        attempt=2,
        cause=Cause.APP,
        container="aitj-main",
        code=137,
        signal="SIGKILL",
        reason="OOMKilled",
        node="n1",
        at=NOON,
        message="step 4\nout of memory",
    )
    state = EngineState(
        phase=Phase.FAILED,
        started_at=NOON,
        first_cause=failure,
        failures=(failure,),
        spent={Phase.PENDING: 1.6, Phase.RUNNING: 60.6, Phase.SUSPENDED: 10},
    )
    words = AITrainingJob().status(JobStatus(state=state), {}, PLAIN)
    assert words["firstCause"] == {
        "member": "worker-1",
        "attempt": 2,
        "cause": "app",
        "container": "aitj-main",
        "exitCode": 137,
        "signal": "SIGKILL",
        "reason": "OOMKilled",
        "node": "n1",
        "at": "2026-01-01T12:00:00Z",
        "message": "step 4\nout of memory",
    }
    assert words["failures"] == [words["firstCause"]]
    assert words["durations"] == {"queued": 1, "running": 60, "suspended": 10, "total": 72}
