"""How a job of kubeflow.org fares, in the words of its conditions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from pliant.errors import InvalidSpec
from pliant.model.actions import JobStatusUpdate
from pliant.model.messages import MessageReason, message
from pliant.model.state import EngineState, JobOutcome, JobPhase, ReplicaCounts
from tests.builders import NOON, saying
from tests.frontends.kubeflow import KINDS, parsed

Status = dict[str, Any]


class Story:
    """A job whose phases are told one after the other."""

    def __init__(self) -> None:
        self.job = parsed("TFJob", {"Worker": 2})
        self.status: Status = {}
        self.now = NOON

    def told(self, phase: JobPhase, message: str = "so it is", **state: Any) -> Status:
        self.now += timedelta(seconds=10)
        memory = EngineState(phase=phase, message=saying(message), started_at=NOON, status_written_at=self.now, **state)
        counts = state.get("replica_counts", {})
        self.status = KINDS["TFJob"].render_status(
            JobStatusUpdate(state=memory, replica_counts=counts), self.status, self.job
        )
        return self.status

    @property
    def types(self) -> list[str]:
        return [f"{each['type']}={each['status']}" for each in self.status["conditions"]]


def test_the_last_condition_is_the_present_one() -> None:
    story = Story()
    seen = []
    for phase in (JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING, JobPhase.RUNNING, JobPhase.SUCCEED):
        story.told(phase)
        seen.append(story.types)
    assert seen == [
        ["Created=True"],
        ["Created=True", "Running=True"],
        ["Created=True", "Restarting=True"],
        ["Created=True", "Running=True"],
        ["Created=True", "Running=False", "Succeeded=True"],
    ]


def test_a_job_that_rests_and_goes_on_says_so() -> None:
    story = Story()
    story.told(JobPhase.RUNNING)
    story.told(JobPhase.SUSPENDED)
    assert story.types == ["Created=True", "Running=False", "Suspended=True"]
    story.told(JobPhase.PENDING, resumed_at=story.now)
    assert story.types == ["Running=False", "Suspended=False", "Created=True"]
    suspended = story.status["conditions"][1]
    assert suspended["reason"] == "TFJobResumed"
    assert story.status["startTime"] == "2026-01-01T12:00:20Z"


def test_reasons_are_those_of_kubeflow() -> None:
    story = Story()
    story.told(JobPhase.RUNNING)
    assert story.status["conditions"][-1]["reason"] == "TFJobRunning"
    story.told(JobPhase.TIMEOUT)
    last = story.status["conditions"][-1]
    assert (last["type"], last["reason"]) == ("Failed", "DeadlineExceeded")


def test_times_change_only_with_what_they_tell_of() -> None:
    story = Story()
    first = story.told(JobPhase.RUNNING)["conditions"][-1]
    assert story.told(JobPhase.RUNNING)["conditions"][-1] == first
    other = story.told(JobPhase.RUNNING, "one ended")["conditions"][-1]
    assert other["lastTransitionTime"] == first["lastTransitionTime"]
    assert other["lastUpdateTime"] > first["lastUpdateTime"]


def test_an_end_that_is_decided_is_told_before_the_pods_are_gone() -> None:
    story = Story()
    verdict = JobOutcome(phase=JobPhase.SUCCEED, message=saying("training completed"), at=NOON + timedelta(seconds=5))
    story.told(JobPhase.TERMINATING, outcome=verdict)
    assert story.types[-1] == "Succeeded=True"
    assert story.status["completionTime"] == "2026-01-01T12:00:05Z"


def test_members_are_counted_by_group_and_can_be_selected() -> None:
    story = Story()
    story.told(JobPhase.RUNNING, replica_counts={"Worker": ReplicaCounts(size=2, active=1, pending=1)})
    assert story.status["replicaStatuses"]["Worker"] == {
        "active": 2,
        "selector": "training.kubeflow.org/job-name=demo,training.kubeflow.org/replica-type=worker",
    }


def inherited(**status: Any) -> EngineState | None:
    return parsed("TFJob", {"Worker": 1}, status=status).state


def test_what_another_operator_wrote_is_inherited() -> None:
    done = {"type": "Succeeded", "status": "True", "message": "done", "lastTransitionTime": "2026-01-01T11:00:00Z"}
    state = inherited(conditions=[done], startTime="2026-01-01T10:00:00Z")
    assert state is not None
    reported = message(MessageReason.REPORTED_BY_OTHER_OPERATOR, message="done")
    assert (state.phase, state.message) == (JobPhase.SUCCEED, reported)
    assert state.ended_at == datetime.fromisoformat("2026-01-01T11:00:00+00:00")
    begun = inherited(conditions=[{**done, "type": "Running"}], startTime="2026-01-01T10:00:00Z")
    assert begun is not None
    assert (begun.phase, begun.started_at.hour) == (JobPhase.PENDING, 10)
    assert inherited(conditions=[{**done, "type": "Created"}]) is None
    assert inherited(conditions=5, startTime="yesterday") is None


def test_conditions_name_the_generation_that_they_are_based_on() -> None:
    story = Story()
    story.told(JobPhase.RUNNING, observed_generation=1)
    first = story.status["conditions"][-1]
    story.told(JobPhase.RUNNING, observed_generation=2)
    created, running = story.status["conditions"]
    assert (created["observedGeneration"], running["observedGeneration"]) == (1, 2)
    assert running["lastTransitionTime"] == first["lastTransitionTime"], "the status of the condition is the same"
    refused = KINDS["TFJob"].add_validation_error(InvalidSpec("spec.x", "is wrong"), story.status, NOON, 3)
    assert (refused["conditions"][-1]["type"], refused["conditions"][-1]["observedGeneration"]) == ("Invalid", 3)


@pytest.mark.parametrize("phase", [JobPhase.SUCCEED, JobPhase.FAILED])
def test_nobody_is_active_in_a_job_that_has_ended(phase: JobPhase) -> None:
    counts = {"Worker": ReplicaCounts(size=2, active=1, succeeded=1)}
    story = Story()
    assert story.told(JobPhase.RUNNING, replica_counts=counts)["replicaStatuses"]["Worker"]["active"] == 1
    assert "active" not in story.told(phase, replica_counts=counts)["replicaStatuses"]["Worker"]
