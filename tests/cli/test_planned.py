"""How plans are told of: what they ask for, by whom, and why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pliant.cli.cluster.scale_plans import MAX_SHOWN_PLANS, plan_request_text, plan_rows
from pliant.cli.explain.group_sizes import REQUESTER_NAMES
from pliant.model.job import JobKey
from pliant.model.scale_plans import PlanGroupRequest, PlanPhase, PlanPodRequest, ScalePlan
from pliant.model.state import SizeRequester

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def plan(name: str = "p", **fields: Any) -> ScalePlan:
    return ScalePlan(**{"key": JobKey("default", name), "uid": name, "created_at": NOON, **fields})


def test_what_a_plan_asks_for_is_told_in_a_few_words() -> None:
    sized = plan(
        group_requests={"worker": PlanGroupRequest(size=4, resources={"cpu": "2"}), "ps": PlanGroupRequest(size=0)}
    )
    assert plan_request_text(sized) == "worker 4 (cpu 2), ps 0"
    named = plan(
        create_pods=(PlanPodRequest(group="worker", rank=1), PlanPodRequest(group="ps")),
        remove_pods=(PlanPodRequest(group="worker", name="t-edljob-worker-3"),),
        migrate_pods=(PlanPodRequest(group="worker", rank=2, resources={"memory": "8Gi"}),),
    )
    assert plan_request_text(named) == (
        "add worker rank 1, add ps, remove t-edljob-worker-3, migrate worker rank 2 (memory 8Gi)"
    )


def test_pods_that_differ_in_nothing_but_their_ranks_share_a_few_words() -> None:
    many = plan(
        create_pods=tuple(PlanPodRequest(group="worker", rank=rank, resources={"cpu": "1"}) for rank in range(12))
    )
    assert plan_request_text(many) == "add worker ranks 0, 1, 2 and 9 more (cpu 1)"


def test_the_newest_plan_comes_first_with_whoever_wrote_it_and_why() -> None:
    old = plan(
        "old", phase=PlanPhase.SUCCEEDED, reason="the job begins", group_requests={"worker": PlanGroupRequest(size=1)}
    )
    new = plan("new", is_manual=True, created_at=NOON + timedelta(minutes=1))
    rows = plan_rows([old, new], NOON + timedelta(minutes=2))
    assert rows == [
        ["60s", "new", "manual", "new", "–", "–"],
        ["2m", "old", "master", "Succeeded", "worker 1", "the job begins"],
    ]


def test_only_the_latest_plans_are_told_of() -> None:
    many = [plan(f"p{number}", created_at=NOON + timedelta(seconds=number)) for number in range(20)]
    rows = plan_rows(many, NOON + timedelta(minutes=1))
    assert [row[1] for row in rows] == [f"p{number}" for number in range(19, 19 - MAX_SHOWN_PLANS, -1)]


def test_a_plan_that_cannot_be_read_tells_why() -> None:
    [row] = plan_rows([plan(parse_error="spec.createPods[0].type is missing", phase=PlanPhase.FAILED)], NOON)
    assert row[3:] == ["Failed", "–", "spec.createPods[0].type is missing"]


def test_everybody_who_may_ask_for_a_size_has_a_name() -> None:
    assert set(REQUESTER_NAMES) == set(SizeRequester)
