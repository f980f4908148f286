"""Whose end is the job's: every policy of groups and of jobs, with members that really end."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.model.messages import MessageReason
from tests.scenarios.jobs import FOREVER, Manifest, group, job, per_rank
from tests.scenarios.scene import Scene

GOOD = "sleep 0.1; exit 0"
BAD = "sleep 0.1; exit 3"
Fields = dict[str, Any]


def one(script: str, replicas: int = 2, **fields: Any) -> dict[str, Manifest]:
    return {"worker": group(script, replicas, **fields)}


def two(first: Manifest, second: Manifest) -> dict[str, Manifest]:
    return {"first": first, "second": second}


ENDS: dict[str, tuple[dict[str, Manifest], Fields, str]] = {
    "any member completes a group of policy Any": (one(per_rank(FOREVER, GOOD), completePolicy="Any"), {}, "Succeed"),
    "the first member completes a group of policy Rank0": (
        one(per_rank(GOOD, FOREVER), completePolicy="Rank0"),
        {},
        "Succeed",
    ),
    "all members together complete a group of policy All": (one(GOOD, completePolicy="All"), {}, "Succeed"),
    "nobody waits for servers of policy None": (
        two(group(GOOD, 2), group(FOREVER, completePolicy="None")),
        {},
        "Succeed",
    ),
    "any member fails a group of policy Any": (one(per_rank(FOREVER, BAD), failPolicy="Any"), {}, "Failed"),
    "the first member fails a group of policy Rank0": (one(per_rank(BAD, FOREVER), failPolicy="Rank0"), {}, "Failed"),
    "all members together fail a group of policy All": (one(BAD, failPolicy="All"), {}, "Failed"),
    "a group whose members all fail has failed, whatever its policy None": (one(BAD, failPolicy="None"), {}, "Failed"),
    "members of policy None may fail": (
        two(group("sleep 0.5"), group(BAD, completePolicy="None", failPolicy="None")),
        {},
        "Succeed",
    ),
    "any group completes a job of policy Any": (two(group(GOOD), group(FOREVER)), {"completePolicy": "Any"}, "Succeed"),
    "all groups together complete a job of policy All": (
        two(group(GOOD), group("sleep 0.3")),
        {"completePolicy": "All"},
        "Succeed",
    ),
    "any group fails a job of policy Any": (two(group(BAD), group(FOREVER)), {"failPolicy": "Any"}, "Failed"),
    "all groups together fail a job of policy All": (two(group(BAD), group(BAD)), {"failPolicy": "All"}, "Failed"),
    "the first group has done its work when the other fails": (
        two(group(GOOD), group("sleep 9; exit 1")),
        {"completePolicy": "Any"},
        "Succeed",
    ),
}

RUNS_ON: dict[str, tuple[dict[str, Manifest], Fields, dict[str, dict[str, int]]]] = {
    "a group of policy Rank0 waits for its first member": (
        one(per_rank(FOREVER, GOOD), completePolicy="Rank0"),
        {},
        {"worker": {"active": 1, "succeeded": 1}},
    ),
    "a group of policy All waits for its last member": (
        one(per_rank(GOOD, FOREVER), completePolicy="All"),
        {},
        {"worker": {"active": 1, "succeeded": 1}},
    ),
    "a group of policy Rank0 bears the failure of others": (
        one(per_rank(FOREVER, BAD), failPolicy="Rank0"),
        {},
        {"worker": {"active": 1, "failed": 1}},
    ),
    "a group of policy All bears the failure of some": (
        one(per_rank(BAD, FOREVER), failPolicy="All"),
        {},
        {"worker": {"active": 1, "failed": 1}},
    ),
    "a job of policy All waits for its last group": (
        two(group(GOOD), group(FOREVER)),
        {"completePolicy": "All"},
        {"first": {"succeeded": 1}, "second": {"active": 1}},
    ),
    "a job of policy All bears the failure of a group": (
        two(group(BAD), group(FOREVER)),
        {"failPolicy": "All"},
        {"first": {"failed": 1}, "second": {"active": 1}},
    ),
}


@pytest.mark.parametrize(("groups", "fields", "end"), ENDS.values(), ids=ENDS)
async def test_a_job_ends_when_its_policies_say_so(
    scene: Scene, groups: dict[str, Manifest], fields: Fields, end: str
) -> None:
    await scene.submit(job("train", groups, **fields))
    await scene.until_phase("train", "Succeed", "Failed")
    assert scene.phase("train") == end, scene.status("train")["message"]
    assert scene.pods == {}


@pytest.mark.parametrize(("groups", "fields", "counts"), RUNS_ON.values(), ids=RUNS_ON)
async def test_a_job_runs_on_as_long_as_its_policies_say_so(
    scene: Scene, groups: dict[str, Manifest], fields: Fields, counts: dict[str, dict[str, int]]
) -> None:
    await scene.submit(job("train", groups, **fields))
    await scene.until(lambda: tally(scene) == counts, f"counts {counts}")
    assert scene.phase("train") == "Running"
    has_lost = any(each.get("failed") for each in counts.values())
    told = scene.message("train")
    assert (told.reason == MessageReason.RUNNING_WITH_FAILURES) == has_lost
    assert [each.parameters["code"] for each in told.details] == ([3] if has_lost else [])


def tally(scene: Scene) -> dict[str, dict[str, int]]:
    statuses = scene.status("train").get("replicaStatuses") or {}
    return {name: {word: count for word, count in each.items() if count} for name, each in statuses.items()}
