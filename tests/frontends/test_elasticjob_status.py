from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pliant.embedded.schema import Schema
from pliant.errors import InvalidSpec
from pliant.frontends.memory import remembered
from pliant.model.actions import JobStatus
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import EngineState, GroupCounts, GroupState, Phase, Scaling, Verdict
from tests.builders import NOON
from tests.frontends.elasticjob import EJ, parsed, raw_ej

SCHEMA = Schema.compile(EJ.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
LATER = NOON + timedelta(seconds=5)
PLAN = {"uid": Scaling(name="demo-scaleplan-3", at=NOON, why="2 more are faster")}


def pod(name: str, group: str, phase: PodPhase = PodPhase.PENDING) -> ObservedPod:
    return ObservedPod(name=name, uid=name, group=group, index=0, attempt=0, phase=phase)


MASTER_POD = pod("elasticjob-demo-dlrover-master-0", "dlrover-master")


def told(
    phase: Phase = Phase.RUNNING,
    *,
    previous: dict[str, Any] | None = None,
    pods: tuple[ObservedPod, ...] | None = (MASTER_POD,),
    counts: dict[str, GroupCounts] | None = None,
    **facts: Any,
) -> dict[str, Any]:
    """The status of a job that is like that, which a cluster takes."""
    facts = {"message": "well", "written_at": NOON, **facts}
    state = EngineState(phase=phase, started_at=NOON, **facts)
    status = EJ.status(JobStatus(state=state, counts=counts or {}, pods=pods), previous or {}, parsed())
    raw = raw_ej(status=status)
    assert SCHEMA.prune(raw) == []
    assert SCHEMA.validate(raw) == []
    assert remembered(status) == state
    return status


def conditions(status: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["type"], each["status"], each["reason"]) for each in status["status"]["conditions"]]


@pytest.mark.parametrize(
    ("phase", "facts", "word", "condition", "reason"),
    [
        (Phase.PENDING, {"pods": ()}, "Created", "Created", "JobCreated"),
        (Phase.PENDING, {}, "Pending", "Pending", "JobPending"),
        (Phase.CREATING, {}, "Pending", "Pending", "JobPending"),
        (Phase.RUNNING, {}, "Running", "Running", "JobRunning"),
        (Phase.RUNNING, {"plans": PLAN}, "Scaling", "Scaling", "JobScaling"),
        (Phase.RESTARTING, {}, "Running", "Restarting", "JobRestarting"),
        (Phase.SUSPENDED, {"plans": PLAN}, "Suspended", "Suspended", "JobSuspended"),
        (Phase.SUCCEED, {}, "Succeeded", "Succeeded", "JobSucceeded"),
        (Phase.FAILED, {}, "Failed", "Failed", "JobFailed"),
        (Phase.NODE_FAIL, {}, "Failed", "Failed", "NodeFail"),
        (Phase.TIMEOUT, {}, "Failed", "Failed", "Timeout"),
    ],
)
def test_every_phase_has_a_word(
    phase: Phase, facts: dict[str, Any], word: str, condition: str, reason: str
) -> None:
    status = told(phase, **facts)
    assert status["phase"] == word
    assert conditions(status)[-1] == (condition, "True", reason)


def test_an_end_that_is_decided_is_told_before_the_last_pod_is_gone() -> None:
    status = told(Phase.TERMINATING, verdict=Verdict(phase=Phase.SUCCEED, message="done", at=LATER), plans=PLAN)
    assert status["phase"] == "Succeeded"
    assert status["status"]["completionTime"] == "2026-01-01T12:00:05Z"


def test_a_plan_under_way_is_named_with_its_reason_and_remembered_by_name() -> None:
    status = told(plans=PLAN)
    assert status["scalePlan"] == "demo-scaleplan-3"
    assert status["message"] == "carries out demo-scaleplan-3 (2 more are faster)"
    after = told(previous=status)
    assert after["scalePlan"] == "demo-scaleplan-3"
    assert after["message"] == "well"


def test_conditions_are_a_history_of_which_one_is_true() -> None:
    status = told(Phase.PENDING, pods=())
    status = told(previous=status)
    status = told(plans=PLAN, previous=status, written_at=LATER)
    assert conditions(status) == [
        ("Created", "True", "JobCreated"),
        ("Running", "False", "JobRunning"),
        ("Scaling", "True", "JobScaling"),
    ]
    status = told(Phase.RESTARTING, previous=status)
    assert conditions(status)[1:] == [("Scaling", "False", "JobScaling"), ("Restarting", "True", "JobRestarting")]
    status = told(previous=status, written_at=LATER)
    assert conditions(status)[1:] == [("Scaling", "False", "JobScaling"), ("Running", "True", "JobRunning")]
    assert status["status"]["conditions"][-1]["lastTransitionTime"] == "2026-01-01T12:00:05Z"


def test_a_condition_keeps_its_time_until_it_changes() -> None:
    status = told()
    assert told(previous=status, written_at=LATER)["status"]["conditions"] == status["status"]["conditions"]
    changed = told(previous=status, written_at=LATER, message="not so well")["status"]["conditions"][-1]
    assert changed["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert changed["lastUpdateTime"] == "2026-01-01T12:00:05Z"


def test_members_are_counted_by_type() -> None:
    workers = GroupCounts(size=9, pending=3, scheduled=1, active=2, succeeded=1, failed=1, restarting=1)
    status = told(counts={"worker": workers}, pods=(MASTER_POD, pod("a", "worker"), pod("b", "worker")))
    assert status["status"]["replicaStatuses"] == {
        "worker": {"initial": 1, "pending": 4, "active": 2, "succeeded": 1, "failed": 1}
    }
    assert (status["workers"], status["replicas"]) == ("2/8", 6)
    assert told(counts={"worker": workers}, groups={"worker": GroupState(size=4)})["workers"] == "2/4"
    assert status["selector"] == "TrainingJobName=demo,TrainingJobReplicaName=worker"


def test_what_the_first_definition_of_the_kind_asks_for_is_always_there() -> None:
    assert told(Phase.PENDING, pods=())["status"].keys() >= {"conditions", "replicaStatuses"}


def test_a_problem_is_told_beside_what_was_known_and_once() -> None:
    before = told()
    problem = InvalidSpec("spec.replicaSpecs.worker", "is required")
    status = EJ.rejection(problem, before, LATER)
    assert EJ.is_rejected(status)
    assert not EJ.is_rejected(before)
    assert status["message"] == "spec.replicaSpecs.worker: is required"
    assert (status["phase"], status["pliant"]) == ("Running", before["pliant"])
    assert conditions(status)[-1] == ("Invalid", "True", "InvalidSpec")
    assert EJ.rejection(problem, status, LATER + timedelta(hours=1)) == status
    assert conditions(told(previous=status))[-1] == ("Running", "True", "JobRunning")


def test_a_problem_of_a_new_job_is_a_status_that_a_cluster_takes() -> None:
    status = EJ.rejection(InvalidSpec("spec", "is odd"), {}, NOON)
    assert SCHEMA.validate(raw_ej(status=status)) == []


@pytest.mark.parametrize("junk", [5, "x", [], {"conditions": 5}, {"conditions": [5, {"type": 1}]}])
def test_words_that_are_none_of_ours_are_passed_over(junk: Any) -> None:
    assert not EJ.is_rejected({"status": junk})
    assert conditions(told(previous={"status": junk, "scalePlan": 5}))[-1] == ("Running", "True", "JobRunning")


def test_the_columns_people_see() -> None:
    version = EJ.crd()["spec"]["versions"][0]
    columns = [(column["name"], column.get("priority", 0)) for column in version["additionalPrinterColumns"]]
    assert columns == [("Phase", 0), ("Workers", 0), ("Age", 0), ("Plan", 1), ("Message", 1)]
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.replicaSpecs.worker.replicas"
