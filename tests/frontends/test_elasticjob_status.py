from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pliant.embedded.schema import Schema
from pliant.errors import InvalidSpec
from pliant.frontends.status.engine_state import load_state
from pliant.model.actions import JobStatusUpdate
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import EngineState, GroupState, JobOutcome, JobPhase, PlanExecution, ReplicaCounts
from tests.builders import NOON, saying
from tests.frontends.elasticjob import EJ, parsed, raw_ej

SCHEMA = Schema.compile(EJ.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
LATER = NOON + timedelta(seconds=5)
PLAN = {"uid": PlanExecution(plan_name="demo-scaleplan-3", started_at=NOON, message="2 more are faster")}


def pod(name: str, group: str, phase: PodPhase = PodPhase.PENDING) -> ObservedPod:
    return ObservedPod(name=name, uid=name, group=group, index=0, attempt=0, phase=phase)


MASTER_POD = pod("elasticjob-demo-dlrover-master-0", "dlrover-master")


def told(
    phase: JobPhase = JobPhase.RUNNING,
    *,
    previous: dict[str, Any] | None = None,
    pods: tuple[ObservedPod, ...] | None = (MASTER_POD,),
    counts: dict[str, ReplicaCounts] | None = None,
    **facts: Any,
) -> dict[str, Any]:
    """The status of a job that is like that, which a cluster takes."""
    facts = {"message": saying("well"), "status_written_at": NOON, **facts}
    state = EngineState(phase=phase, started_at=NOON, **facts)
    status = EJ.render_status(
        JobStatusUpdate(state=state, replica_counts=counts or {}, observed_pods=pods), previous or {}, parsed()
    )
    raw = raw_ej(status=status)
    assert SCHEMA.prune(raw) == []
    assert SCHEMA.validate(raw) == []
    assert load_state(status) == state
    return status


def conditions(status: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["type"], each["status"], each["reason"]) for each in status["status"]["conditions"]]


@pytest.mark.parametrize(
    ("phase", "facts", "word", "condition", "reason"),
    [
        (JobPhase.PENDING, {"pods": ()}, "Created", "Created", "JobCreated"),
        (JobPhase.PENDING, {}, "Pending", "Pending", "JobPending"),
        (JobPhase.CREATING, {}, "Pending", "Pending", "JobPending"),
        (JobPhase.RUNNING, {}, "Running", "Running", "JobRunning"),
        (JobPhase.RUNNING, {"plan_executions": PLAN}, "Scaling", "Scaling", "JobScaling"),
        (JobPhase.RESTARTING, {}, "Running", "Restarting", "JobRestarting"),
        (JobPhase.SUSPENDED, {"plan_executions": PLAN}, "Suspended", "Suspended", "JobSuspended"),
        (JobPhase.SUCCEED, {}, "Succeeded", "Succeeded", "JobSucceeded"),
        (JobPhase.FAILED, {}, "Failed", "Failed", "JobFailed"),
        (JobPhase.NODE_FAIL, {}, "Failed", "Failed", "NodeFail"),
        (JobPhase.TIMEOUT, {}, "Failed", "Failed", "Timeout"),
    ],
)
def test_every_phase_has_a_word(phase: JobPhase, facts: dict[str, Any], word: str, condition: str, reason: str) -> None:
    status = told(phase, **facts)
    assert status["phase"] == word
    assert conditions(status)[-1] == (condition, "True", reason)


def test_an_end_that_is_decided_is_told_before_the_last_pod_is_gone() -> None:
    status = told(
        JobPhase.TERMINATING,
        outcome=JobOutcome(phase=JobPhase.SUCCEED, message=saying("done"), at=LATER),
        plan_executions=PLAN,
    )
    assert status["phase"] == "Succeeded"
    assert status["status"]["completionTime"] == "2026-01-01T12:00:05Z"


def test_a_plan_under_way_is_named_with_its_reason_and_remembered_by_name() -> None:
    status = told(plan_executions=PLAN)
    assert status["scalePlan"] == "demo-scaleplan-3"
    assert status["message"] == "executing demo-scaleplan-3 (2 more are faster)"
    after = told(previous=status)
    assert after["scalePlan"] == "demo-scaleplan-3"
    assert after["message"] == "well"


def test_conditions_are_a_history_of_which_one_is_true() -> None:
    status = told(JobPhase.PENDING, pods=())
    status = told(previous=status)
    status = told(plan_executions=PLAN, previous=status, status_written_at=LATER)
    assert conditions(status) == [
        ("Created", "True", "JobCreated"),
        ("Running", "False", "JobRunning"),
        ("Scaling", "True", "JobScaling"),
    ]
    status = told(JobPhase.RESTARTING, previous=status)
    assert conditions(status)[1:] == [("Scaling", "False", "JobScaling"), ("Restarting", "True", "JobRestarting")]
    status = told(previous=status, status_written_at=LATER)
    assert conditions(status)[1:] == [("Scaling", "False", "JobScaling"), ("Running", "True", "JobRunning")]
    assert status["status"]["conditions"][-1]["lastTransitionTime"] == "2026-01-01T12:00:05Z"


def test_a_condition_keeps_its_time_until_it_changes() -> None:
    status = told()
    assert told(previous=status, status_written_at=LATER)["status"]["conditions"] == status["status"]["conditions"]
    changed = told(previous=status, status_written_at=LATER, message=saying("not so well"))["status"]["conditions"][-1]
    assert changed["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert changed["lastUpdateTime"] == "2026-01-01T12:00:05Z"


def test_members_are_counted_by_type() -> None:
    workers = ReplicaCounts(size=8, pending=3, scheduled=1, active=2, succeeded=1, failed=1, restarting=1)
    status = told(counts={"worker": workers}, pods=(MASTER_POD, pod("a", "worker"), pod("b", "worker")))
    assert status["status"]["replicaStatuses"] == {
        "worker": {"initial": 1, "pending": 4, "active": 2, "succeeded": 1, "failed": 1}
    }
    assert (status["workers"], status["replicas"]) == ("2/8", 6)
    assert told(counts={"worker": workers}, groups={"worker": GroupState(applied_size=4)})["workers"] == "2/4"
    assert status["selector"] == "TrainingJobName=demo,pliant/job-uid=job-uid,TrainingJobReplicaName=worker"


def test_what_the_first_definition_of_the_kind_asks_for_is_always_there() -> None:
    assert told(JobPhase.PENDING, pods=())["status"].keys() >= {"conditions", "replicaStatuses"}


def test_a_problem_is_told_beside_what_was_known_and_once() -> None:
    before = told()
    problem = InvalidSpec("spec.replicaSpecs.worker", "is required")
    status = EJ.add_validation_error(problem, before, LATER)
    assert EJ.has_validation_error(status)
    assert not EJ.has_validation_error(before)
    assert status["message"] == "spec.replicaSpecs.worker: is required"
    assert (status["phase"], status["pliant"]) == ("Running", before["pliant"])
    assert conditions(status)[-1] == ("Invalid", "True", "InvalidSpec")
    assert EJ.add_validation_error(problem, status, LATER + timedelta(hours=1)) == status
    assert conditions(told(previous=status))[-1] == ("Running", "True", "JobRunning")


def test_a_problem_of_a_new_job_is_a_status_that_a_cluster_takes() -> None:
    status = EJ.add_validation_error(InvalidSpec("spec", "is odd"), {}, NOON)
    assert SCHEMA.validate(raw_ej(status=status)) == []
    assert SCHEMA.prune(raw_ej(status=status)) == []
    assert status["phase"] == "Invalid"
    assert told(previous=status)["phase"] == "Running"
    assert EJ.load_state(raw_ej(status=status)) is None


def test_conditions_are_where_kubectl_waits_for_them_and_where_masters_read_them() -> None:
    for status in (told(), told(JobPhase.SUCCEED), EJ.add_validation_error(InvalidSpec("spec", "is odd"), {}, NOON)):
        assert status["conditions"] == status["status"]["conditions"]
    nested = {**told(), "conditions": None}
    assert told(JobPhase.SUCCEED, previous=nested)["conditions"][-2]["type"] == "Running"


@pytest.mark.parametrize("junk", [5, "x", [], {"conditions": 5}, {"conditions": [5, {"type": 1}]}])
def test_words_that_are_none_of_ours_are_passed_over(junk: Any) -> None:
    assert not EJ.has_validation_error({"status": junk})
    assert conditions(told(previous={"status": junk, "scalePlan": 5}))[-1] == ("Running", "True", "JobRunning")


def test_the_columns_people_see() -> None:
    version = EJ.crd()["spec"]["versions"][0]
    columns = [(column["name"], column.get("priority", 0)) for column in version["additionalPrinterColumns"]]
    assert columns == [("Phase", 0), ("Workers", 0), ("Age", 0), ("Plan", 1), ("Message", 1), ("Rejected", 0)]
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.replicaSpecs.worker.replicas"
