"""What the status of a PaddleJob of batch.paddlepaddle.org tells, and whatever it may hold."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.errors import InvalidSpec
from pliant.frontends.paddle_batch.status import MAX_POD_REFERENCES
from pliant.model.actions import JobStatusUpdate
from pliant.model.observed import Observed, ObservedPod, PodPhase
from pliant.model.state import EngineState, GroupState, JobOutcome, JobPhase, ReplicaCounts
from pliant.plugins.registry import framework_of
from tests.builders import NOON, decide_stored, parse_stored, saying
from tests.frontends.paddle_batch import PDJ, parsed, raw_pdj, role
from tests.frontends.test_nonsense import ANYTHING

LATER = NOON + timedelta(seconds=90)
PROPERTIES = PDJ.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


def pods(group: str, number: int) -> tuple[ObservedPod, ...]:
    return tuple(
        ObservedPod(
            name=f"demo-{group}-{index}",
            uid=f"{group}-{index}",
            group=group,
            index=index,
            attempt=0,
            phase=PodPhase.RUNNING,
        )
        for index in range(number)
    )


def told(counts: dict[str, ReplicaCounts], previous: dict[str, Any] | None = None, **memory: Any) -> dict[str, Any]:
    state = EngineState(**{"phase": JobPhase.RUNNING, "started_at": NOON, "status_written_at": LATER, **memory})
    job = parsed(**{name: role(each.size) for name, each in counts.items()})
    seen = tuple(pod for name, each in counts.items() for pod in pods(name, each.size))
    return PDJ.render_status(
        JobStatusUpdate(state=state, replica_counts=counts, observed_pods=seen), previous or {}, job
    )


@pytest.mark.parametrize(
    ("phase", "word"),
    [
        (JobPhase.PENDING, "Pending"),
        (JobPhase.CREATING, "Starting"),
        (JobPhase.RUNNING, "Running"),
        (JobPhase.RESTARTING, "Restarting"),
        (JobPhase.SUSPENDED, "Suspended"),
        (JobPhase.SUCCEED, "Completed"),
        (JobPhase.FAILED, "Failed"),
        (JobPhase.NODE_FAIL, "Failed"),
        (JobPhase.PREEMPTED, "Failed"),
    ],
)
def test_phases_are_told_in_the_words_of_the_kind(phase: JobPhase, word: str) -> None:
    status = told({"worker": ReplicaCounts(size=1)}, phase=phase, message=saying("why"))
    assert (status["phase"], status["message"], status["conditions"][-1]["type"]) == (word, "why", word)


def test_an_end_is_told_when_it_is_decided() -> None:
    verdict = JobOutcome(phase=JobPhase.SUCCEED, message=saying("training completed"), at=LATER)
    status = told({"worker": ReplicaCounts(size=1)}, phase=JobPhase.TERMINATING, outcome=verdict, first_running_at=NOON)
    assert (status["phase"], status["startTime"], status["completionTime"]) == (
        "Completed",
        "2026-01-01T12:00:00Z",
        "2026-01-01T12:01:30Z",
    )


def test_members_are_counted_and_named_by_role() -> None:
    ps = ReplicaCounts(size=2, active=2)
    worker = ReplicaCounts(size=3, pending=1, scheduled=1, succeeded=1)
    status = told({"ps": ps, "worker": worker})
    assert (status["mode"], "heter" in status) == ("PS", False)
    assert status["ps"]["running"] == 2
    counted = {name: status["worker"].get(name, 0) for name in ("pending", "starting", "running", "succeeded")}
    assert counted == {"pending": 1, "starting": 1, "running": 0, "succeeded": 1}
    assert status["worker"]["replicas"] == 2
    assert status["worker"]["refs"][2] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "team",
        "name": "demo-worker-2",
        "uid": "worker-2",
    }
    assert status["worker"]["selector"] == "TrainingJobName=demo,pliant/job-uid=job-uid,TrainingJobReplicaName=worker"


def test_pods_are_named_as_far_as_there_is_room_and_stay_named_while_nobody_looks() -> None:
    many = {"worker": ReplicaCounts(size=MAX_POD_REFERENCES + 50)}
    status = told(many)
    assert len(status["worker"]["refs"]) == MAX_POD_REFERENCES
    job = parsed(worker=role(MAX_POD_REFERENCES + 50))
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON)
    again = PDJ.render_status(JobStatusUpdate(state=state, replica_counts=many), status, job)
    assert again["worker"]["refs"] == status["worker"]["refs"]
    assert (
        "refs" not in PDJ.render_status(JobStatusUpdate(state=state, replica_counts=many), {"worker": 3}, job)["worker"]
    )


@pytest.mark.parametrize(
    ("spec", "size", "mode"),
    [
        ({"worker": role(1)}, None, "Single"),
        ({"worker": role(2)}, None, "Collective"),
        ({"elastic": 1, "worker": role(1)}, 3, "Collective"),
        ({"worker": role(1, limits=4)}, None, "Collective"),
        ({"worker": role(1), "ps": role(1)}, None, "PS"),
        ({"heter": role(1)}, None, "Single"),
    ],
)
def test_the_mode_is_told(spec: dict[str, Any], size: int | None, mode: str) -> None:
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON, groups={"worker": GroupState(applied_size=size)})
    assert PDJ.render_status(JobStatusUpdate(state=state), {}, parsed(**spec))["mode"] == mode


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ({"phase": "Completed", "completionTime": "2026-01-01T12:00:00Z"}, JobPhase.SUCCEED),
        ({"phase": "Failed"}, JobPhase.FAILED),
        ({"phase": "Running", "startTime": "2026-01-01T12:00:00Z"}, JobPhase.PENDING),
        ({"phase": "Pending"}, None),
        ({"phase": 3}, None),
    ],
)
def test_what_another_operator_left_is_taken_over(status: dict[str, Any], phase: JobPhase | None) -> None:
    state = parsed(worker=role(), status=status).state
    assert (state.phase if state else None) == phase


def judged(raw: dict[str, Any]) -> None:
    """Parse an object, unless it is refused by the name of a field, and decide and tell about it."""
    try:
        job = parse_stored(PDJ, raw)
    except InvalidSpec:
        return
    decision = decide_stored(job, Observed(), framework_of(job), NOON + timedelta(seconds=5))
    if decision.status is not None:
        PDJ.render_status(decision.status, raw.get("status") or {}, job)


FIELDS = sorted(PROPERTIES["spec"]["properties"])
ROLE_FIELDS = sorted(PROPERTIES["spec"]["properties"]["worker"]["properties"])


@given(st.sampled_from(FIELDS), ANYTHING)
def test_any_field_of_a_spec_is_read_or_refused(field: str, nonsense: Any) -> None:
    judged(raw_pdj(**{"worker": role(1), "intranet": "Host", field: nonsense}))


@given(st.sampled_from(ROLE_FIELDS), ANYTHING)
def test_any_field_of_a_role_is_read_or_refused(field: str, nonsense: Any) -> None:
    judged(raw_pdj(worker={**role(1), field: nonsense}))


@given(st.sampled_from(["command", "env", "ports", "name"]), ANYTHING | st.lists(ANYTHING, max_size=2))
def test_any_container_is_read_or_refused(field: str, nonsense: Any) -> None:
    judged(raw_pdj(intranet="Host", worker=role(1, pod={"containers": [{"name": "main", field: nonsense}]})))


@given(ANYTHING)
def test_any_spec_is_read_or_refused(spec: Any) -> None:
    judged({**raw_pdj(), "spec": spec})


@given(ANYTHING | st.dictionaries(st.sampled_from(sorted(PROPERTIES["status"]["properties"])), ANYTHING, max_size=3))
def test_any_status_is_read_or_refused_and_can_be_written_over(status: Any) -> None:
    judged({**raw_pdj(worker=role(1)), "status": status} if isinstance(status, dict) else raw_pdj())
    previous = status if isinstance(status, dict) else {}
    told = PDJ.add_validation_error(InvalidSpec("spec", "is nonsense"), previous, NOON)
    assert told["conditions"][-1]["message"] == "spec: is nonsense"
    assert PDJ.has_validation_error(told)
