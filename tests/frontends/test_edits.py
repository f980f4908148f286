"""What may be edited while a job is under way, and what not."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.errors import InvalidSpec
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.frontends.spec.pod_templates import hash_template
from pliant.frontends.status.engine_state import dump_state
from pliant.model.state import EngineState, GroupState, JobOutcome, JobPhase
from tests.builders import NOON, parse_stored, saying
from tests.frontends.raw import raw_group, raw_job

OTHER = {"name": "trainer", "image": "another"}


def under_way(groups: dict[str, Any], phase: JobPhase = JobPhase.RUNNING, **memory: Any) -> dict[str, Any]:
    """The status of a job that was made from these groups."""
    made = {name: GroupState(template_hash=hash_template(group["template"])) for name, group in groups.items()}
    return {"pliant": dump_state(EngineState(phase=phase, started_at=NOON, groups=made, **memory))}


GROUPS = {"worker": raw_group(), "ps": raw_group()}


@pytest.mark.parametrize(
    ("edited", "field"),
    [
        ({**GROUPS, "worker": raw_group(OTHER)}, "spec.replicaSpecs.worker.template"),
        ({"worker": raw_group()}, "spec.replicaSpecs.ps"),
        ({**GROUPS, "chief": raw_group()}, "spec.replicaSpecs.chief"),
    ],
    ids=["another template", "a group less", "a group more"],
)
def test_groups_and_templates_stay_while_a_job_is_under_way(edited: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec, match=r"set spec\.suspend first") as caught:
        parse_stored(AITrainingJobFrontend(), raw_job(edited, status=under_way(GROUPS)))
    assert str(caught.value).startswith(f"{field}: cannot")


@pytest.mark.parametrize("phase", [JobPhase.SUSPENDED, JobPhase.SUCCEED])
def test_a_job_that_holds_nothing_may_be_edited(phase: JobPhase) -> None:
    job = parse_stored(AITrainingJobFrontend(), raw_job({"worker": raw_group(OTHER)}, status=under_way(GROUPS, phase)))
    assert [group.name for group in job.groups] == ["worker"]


def test_an_edit_may_come_together_with_the_suspension() -> None:
    job = parse_stored(
        AITrainingJobFrontend(), raw_job({"worker": raw_group(OTHER)}, status=under_way(GROUPS), suspend=True)
    )
    assert job.is_suspended


def test_a_job_on_its_way_out_is_cleared_whatever_is_edited() -> None:
    status = under_way(
        GROUPS, JobPhase.TERMINATING, outcome=JobOutcome(phase=JobPhase.FAILED, message=saying("x"), at=NOON)
    )
    assert parse_stored(AITrainingJobFrontend(), raw_job({"worker": raw_group(OTHER)}, status=status)).state is not None


def test_the_order_of_keys_makes_no_other_template() -> None:
    assert hash_template({"a": 1, "b": {"c": 2, "d": 3}}) == hash_template({"b": {"d": 3, "c": 2}, "a": 1})
    assert hash_template({"a": 1}) != hash_template({"a": 2})


def test_sizes_bounds_and_limits_may_always_be_edited() -> None:
    edited = {"worker": raw_group(replicas=3, maxReplicas=5, restartLimit=9), "ps": raw_group()}
    job = parse_stored(
        AITrainingJobFrontend(), raw_job(edited, status=under_way(GROUPS), timeLimit=7, failPolicy="All")
    )
    assert [group.size for group in job.groups] == [3, 1]


@pytest.mark.parametrize(("before", "after"), [("pytorch", "tensorflow"), ("", "pytorch"), ("PyTorch", "")])
def test_the_framework_of_an_active_job_stays(before: str, after: str) -> None:
    frontend = AITrainingJobFrontend()
    first = frontend.parse(raw_job(frameworkType=before))
    groups = {group.name: GroupState(template_hash=group.template_hash) for group in first.groups}
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON, groups=groups)
    assert frontend.parse(raw_job(frameworkType=before.upper()), state) == first
    with pytest.raises(InvalidSpec, match=r"spec\.frameworkType: cannot change"):
        frontend.parse(raw_job(frameworkType=after), state)
    assert frontend.parse(raw_job(frameworkType=after, suspend=True), state)


def test_a_hash_of_an_earlier_version_is_that_of_the_template_alone() -> None:
    first = AITrainingJobFrontend().parse(raw_job(frameworkType="pytorch"))
    groups = {group.name: GroupState(template_hash=group.template_hash.partition(".")[0]) for group in first.groups}
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON, groups=groups)
    assert AITrainingJobFrontend().parse(raw_job(frameworkType="pytorch"), state)
