"""Workloads end the same wherever their controllers are killed: before a write, or between a write and its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pliant.embedded.controllers.workloads.views import DEPLOYMENTS, JOBS, REPLICA_SETS
from pliant.kube.resources import PODS
from tests.depth import sample
from tests.virtual_time import on_virtual_time
from tests.workloads.stage import Stage, staged

Life = Callable[[Stage], Awaitable[None]]
MAX_WRITES = 60
INDEX = "batch.kubernetes.io/job-completion-index"


async def roll_out(stage: Stage) -> None:
    await stage.create_deployment(replicas=3)
    await stage.settle(2)
    await stage.patch(DEPLOYMENTS, "web", {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}})


async def complete_indexes(stage: Stage) -> None:
    """Let index 1 fail once."""
    await stage.create_job(completions=3, parallelism=2, completionMode="Indexed")
    failed = False
    for _ in range(4):
        await stage.settle(15)
        for pod in await stage.active_pods():
            if pod["status"]["phase"] == "Running":
                fails = pod["metadata"]["annotations"][INDEX] == "1" and not failed
                failed = failed or fails
                await stage.finish(pod["metadata"]["name"], int(fails))


async def complete(stage: Stage) -> None:
    """Complete a job of three pods, two at a time; the others end after the interruption."""
    await stage.create_job(completions=3, parallelism=2)
    await stage.settle(2)
    for pod in await stage.active_pods():
        if pod["status"]["phase"] == "Running":
            await stage.finish(pod["metadata"]["name"])


async def fail(stage: Stage) -> None:
    await stage.create_job(completions=2, parallelism=2, backoffLimit=0)
    await stage.settle(2)
    for pod in (await stage.active_pods())[:1]:
        if pod["status"]["phase"] == "Running":
            await stage.finish(pod["metadata"]["name"], 1)


async def suspend(stage: Stage) -> None:
    await stage.create_job(completions=2, parallelism=2, backoffLimit=0)
    await stage.settle(2)
    await stage.patch(JOBS, "prepare", {"spec": {"suspend": True}})


LIVES: dict[str, Life] = {
    "roll out": roll_out,
    "indexes": complete_indexes,
    "complete": complete,
    "fail": fail,
    "suspend": suspend,
}


async def finish(stage: Stage, exit_code: int) -> None:
    """Let pods that were started late end, as the life of their job has it."""
    for _ in range(4):
        await stage.settle(700)
        for pod in await stage.active_pods():
            if pod["metadata"]["ownerReferences"][0]["kind"] == "Job":
                await stage.finish(pod["metadata"]["name"], exit_code)


async def describe(stage: Stage) -> Any:
    """Return what is left, without names and times."""
    sizes = sorted(each["spec"]["replicas"] for each in await stage.list_objects(REPLICA_SETS))
    jobs = []
    for job in await stage.list_objects(JOBS):
        true = sorted(x["type"] for x in job["status"].get("conditions") or () if x["status"] == "True")
        counts = {name: job["status"].get(name) for name in ("active", "succeeded", "completedIndexes", "terminating")}
        jobs.append((true, counts, job["status"].get("uncountedTerminatedPods")))
    pods = await stage.list_objects(PODS)
    phases = Counter(pod["status"]["phase"] for pod in pods)
    # How many pods fail depends on when the controllers were killed.
    del phases["Failed"]
    for job in await stage.list_objects(JOBS):
        assert job["status"].get("succeeded", 0) == phases["Succeeded"]
    finalizers = sum(len(pod["metadata"].get("finalizers", ())) for pod in pods)
    return sizes, jobs, dict(phases), finalizers


async def live(name: str, kill_after: int | None, *, loses_answer: bool) -> Any:
    async with staged() as stage:
        stage.controllers.loses_last_answer = loses_answer
        await stage.restart_controllers(after_writes=kill_after)
        await LIVES[name](stage)
        await stage.settle(5)
        await stage.restart_controllers()
        await finish(stage, int(name == "fail"))
        return await describe(stage), len(stage.writes)


CASES = [(name, number, lost) for name in LIVES for number in range(1, MAX_WRITES) for lost in (False, True)]


@pytest.mark.parametrize(("name", "number", "loses_answer"), sample(CASES, 24, "interruptions"))
@on_virtual_time
async def test_an_interrupted_life_ends_as_an_undisturbed_one(name: str, number: int, loses_answer: bool) -> None:
    expected, _ = await live(name, None, loses_answer=False)
    found, _ = await live(name, number, loses_answer=loses_answer)
    assert found == expected


@on_virtual_time
async def test_no_life_has_more_writes_than_are_interrupted() -> None:
    for name in LIVES:
        assert (await live(name, None, loses_answer=False))[1] < MAX_WRITES
