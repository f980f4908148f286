"""What may be edited while a job is under way, and what not."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.errors import InvalidSpec
from pliant.frontends.aitrainingjob import AITrainingJob
from pliant.frontends.memory import blob_of
from pliant.frontends.templates import fingerprint
from pliant.model.state import EngineState, GroupState, Phase, Verdict
from tests.builders import NOON
from tests.frontends.raw import raw_group, raw_job

OTHER = {"name": "trainer", "image": "another"}


def under_way(groups: dict[str, Any], phase: Phase = Phase.RUNNING, **memory: Any) -> dict[str, Any]:
    """The status of a job that was made from these groups."""
    made = {name: GroupState(template=fingerprint(group["template"])) for name, group in groups.items()}
    return {"pliant": blob_of(EngineState(phase=phase, started_at=NOON, groups=made, **memory))}


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
        AITrainingJob().parse(raw_job(edited, status=under_way(GROUPS)))
    assert str(caught.value).startswith(f"{field}: cannot")


@pytest.mark.parametrize("phase", [Phase.SUSPENDED, Phase.SUCCEED])
def test_a_job_that_holds_nothing_may_be_edited(phase: Phase) -> None:
    job = AITrainingJob().parse(raw_job({"worker": raw_group(OTHER)}, status=under_way(GROUPS, phase)))
    assert [group.name for group in job.groups] == ["worker"]


def test_an_edit_may_come_together_with_the_suspension() -> None:
    job = AITrainingJob().parse(raw_job({"worker": raw_group(OTHER)}, status=under_way(GROUPS), suspend=True))
    assert job.is_suspended


def test_a_job_on_its_way_out_is_cleared_whatever_is_edited() -> None:
    status = under_way(GROUPS, Phase.TERMINATING, verdict=Verdict(phase=Phase.FAILED, message="x", at=NOON))
    assert AITrainingJob().parse(raw_job({"worker": raw_group(OTHER)}, status=status)).state is not None


def test_the_order_of_keys_makes_no_other_template() -> None:
    assert fingerprint({"a": 1, "b": {"c": 2, "d": 3}}) == fingerprint({"b": {"d": 3, "c": 2}, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})


def test_sizes_bounds_and_limits_may_always_be_edited() -> None:
    edited = {"worker": raw_group(replicas=3, maxReplicas=5, restartLimit=9), "ps": raw_group()}
    job = AITrainingJob().parse(raw_job(edited, status=under_way(GROUPS), timeLimit=7, failPolicy="All"))
    assert [group.size for group in job.groups] == [3, 1]
