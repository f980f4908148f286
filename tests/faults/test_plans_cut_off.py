"""Operators die over every write while plans are carried out: members, plans and story end as if none had."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from pliant.kube.resources import PODS
from tests.controllers.elastic import JOBS, MASTER, SPACE, Stage, foreign_pod, runs_on, workers
from tests.depth import sample
from tests.faults.elastic_rig import Story, play, play_with_fault
from tests.faults.seam import FAULTS

REST = 5.0
"""Virtual seconds after which one act is over, with an operator that came back."""


async def _up_and_down(stage: Stage) -> None:
    await stage.submit()
    await asyncio.sleep(REST)
    await stage.plan("demo-scaleplan-0", **workers(3), reason="to begin with")
    await asyncio.sleep(REST)
    await stage.plan("by-hand", "manual", **workers(1))
    await asyncio.sleep(REST)
    await stage.plan("demo-scaleplan-1", **workers(2))


async def _named_pods(stage: Stage) -> None:
    await stage.submit()
    await stage.plan("demo-scaleplan-0", **workers(2))
    await asyncio.sleep(2 * REST)
    await stage.client.delete(PODS, SPACE, "demo-edljob-worker-1")
    await asyncio.sleep(REST)
    await stage.plan("demo-scaleplan-1", createPods=[{"type": "worker", "id": 2, "rankIndex": 1, "service": None}])
    await stage.plan("demo-scaleplan-2", replicaResourceSpecs={})
    await asyncio.sleep(REST)
    await stage.plan("demo-scaleplan-3", migratePods=[{"name": "demo-edljob-worker-0", "type": "worker"}])
    await asyncio.sleep(REST)
    await stage.plan("demo-scaleplan-4", removePods=[{"name": "demo-edljob-worker-2", "type": "worker"}])


async def _suspended_meanwhile(stage: Stage) -> None:
    await stage.submit()
    await stage.plan("demo-scaleplan-0", **workers(2))
    await asyncio.sleep(2 * REST)
    await stage.client.patch(JOBS, SPACE, "demo", {"spec": {"suspend": True}})
    await asyncio.sleep(REST)
    await stage.plan("by-hand", "manual", **workers(1))
    await asyncio.sleep(REST)
    await stage.client.patch(JOBS, SPACE, "demo", {"spec": {"suspend": False}})


async def _foreign_master(stage: Stage) -> None:
    job = await stage.submit(command=["python", "-m", "dlrover.python.master.main"])
    for index in range(3):
        await stage.client.create(PODS, SPACE, foreign_pod(job, index))
    await asyncio.sleep(REST)
    await stage.plan("less", "manual", **workers(2))
    await asyncio.sleep(3 * REST)
    await stage.client.delete(PODS, SPACE, f"{MASTER}-0")


STORIES = {
    "up, down and up": Story(acts=_up_and_down, script=runs_on),
    "pods by name": Story(acts=_named_pods, script=runs_on),
    "suspended meanwhile": Story(acts=_suspended_meanwhile, script=runs_on),
    "a foreign master": Story(acts=_foreign_master, script=runs_on),
}


@pytest.mark.parametrize("name", STORIES)
def test_plans_are_carried_out_once_wherever_the_operator_dies(name: str) -> None:
    story = STORIES[name]
    undisturbed = play(story)
    assert undisturbed.writes > 10
    assert undisturbed.late_writes == 0
    for write, is_sent in sample(product(range(1, undisturbed.writes + 1), (False, True)), 5, f"plans {name}"):
        run = play(story, fatal=write, is_sent=is_sent)
        what = f"died {'after' if is_sent else 'before'} write {write} of {undisturbed.writes}"
        assert run.end == undisturbed.end, what
        assert run.late_writes == 0, f"{what}: still writing when everything is at rest"
        again = {pod: times for pod, times in run.made.items() if times > undisturbed.made[pod]}
        assert not again, f"{what}: made again {again}"


@pytest.mark.parametrize("name", STORIES)
def test_plans_are_carried_out_though_a_write_goes_wrong(name: str) -> None:
    story = STORIES[name]
    undisturbed = play(story)
    for write in sample(range(1, undisturbed.writes + 1), 4, f"faulty plans {name}"):
        fault = FAULTS[write % len(FAULTS)]
        run = play_with_fault(story, write, fault)
        what = f"{fault} at write {write} of {undisturbed.writes}"
        assert run.end == undisturbed.end, what
        again = {pod: times for pod, times in run.made.items() if times > undisturbed.made[pod]}
        assert not again, f"{what}: made again {again}"
