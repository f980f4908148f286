"""Jobs of workers in step under DLRover's own masters, in both of their modes: whatever happens, they train on."""

from __future__ import annotations

import pytest

from pliant.frontends.elasticjob.master import DLROVER_MASTER
from pliant.kube.client import KubeClient
from tests.dlrover_masters.jobs import Master, allreduce
from tests.dlrover_masters.stage import LIST, SLOW, Stage, a_stage, master_pod
from tests.dlrover_masters.versions import RELEASES

MASTERS = [Master(version, platform) for version in RELEASES for platform in ("pyk8s", "k8s")]
EACH = pytest.mark.parametrize("master", MASTERS, ids=str)
pytestmark = [pytest.mark.dlrover, pytest.mark.timeout(400)]


async def training(stage: Stage, master: Master, workers: int = 2) -> None:
    """Submit a job, and wait until all of its workers train together."""
    await stage.submit(allreduce(master, stage.namespace, "t", workers))
    await stage.until_running("t", workers)
    await until_together(stage, workers)


async def until_together(stage: Stage, size: int, within: float = SLOW) -> None:
    """Wait until the first worker trains with so many in all."""
    await stage.until_said(first(stage), f"rank 0 of {size} goes on after step", within)


def first(stage: Stage) -> str:
    """The pod of rank 0."""
    rank = "elasticjob.dlrover/rank-index"
    return next(name for name, pod in stage.members("t").items() if pod["metadata"]["labels"][rank] == "0")


@EACH
async def test_workers_train_to_the_end_and_nothing_is_left(client: KubeClient, master: Master) -> None:
    async with a_stage(client, master) as stage:
        await training(stage, master)
        assert stage.phase("t") == "Running"
        await stage.finish()
        await stage.until_over("t")
        assert len(stage.ever("t")) == 2, "nobody was made twice"


@EACH
async def test_a_worker_that_is_killed_is_replaced_by_its_master(client: KubeClient, master: Master) -> None:
    async with a_stage(client, master) as stage:
        await training(stage, master)
        stage.kill("t-edljob-worker-1")
        await stage.until(lambda: "t-edljob-worker-2" in stage.running("t"), "another at the same rank", SLOW)
        labels = stage.pods["t-edljob-worker-2"]["metadata"]["labels"]
        assert labels["elasticjob.dlrover/rank-index"] == "1"
        await stage.until_said("t-edljob-worker-2", "rank 1 of 2 goes on after step [1-9]")
        await stage.finish()
        await stage.until_over("t")


@EACH
async def test_a_new_master_adopts_workers_that_train(client: KubeClient, master: Master) -> None:
    async with a_stage(client, master) as stage:
        await training(stage, master)
        before = stage.ever("t")
        await replace_master(stage)
        await stage.finish()
        await stage.until_over("t")
        assert stage.ever("t") == before, "nobody was made twice"


@EACH
async def test_people_have_more_workers_and_fewer_by_a_plan(client: KubeClient, master: Master) -> None:
    async with a_stage(client, master) as stage:
        await training(stage, master)
        await stage.plan("t", "more", 3)
        await stage.until_running("t", 3)
        await until_together(stage, 3)
        await stage.plan("t", "fewer", 2)
        await stage.until_running("t", 2)
        await stage.until(lambda: stage.plans_done("more", "fewer"), "both plans done", LIST)
        await stage.finish()
        await stage.until_over("t", within=LIST + SLOW)
        assert len(stage.ever("t")) == 3, "who was taken away did not come back"


@EACH
async def test_a_new_master_does_not_wait_for_workers_that_were_taken_away(client: KubeClient, master: Master) -> None:
    async with a_stage(client, master) as stage:
        await training(stage, master)
        # By an edit: a new master reads `replicas`.
        await stage.edit("t", {"spec": {"replicaSpecs": {"worker": {"replicas": 1}}}})
        await stage.until_running("t", 1)
        await until_together(stage, 1)
        await replace_master(stage)
        await stage.finish()
        await stage.until_over("t")


@EACH
async def test_a_job_ends_though_its_new_master_waits_for_workers_that_a_plan_took_away(
    client: KubeClient, master: Master
) -> None:
    async with a_stage(client, master) as stage:
        await training(stage, master)
        await stage.plan("t", "fewer", 1)
        await stage.until_running("t", 1)
        await until_together(stage, 1)
        await replace_master(stage)
        await stage.finish()
        await stage.until_over("t", within=DLROVER_MASTER.completion_timeout.total_seconds() + SLOW)


@EACH
async def test_a_job_rests_and_comes_back(client: KubeClient, master: Master) -> None:
    async with a_stage(client, master) as stage:
        await training(stage, master)
        await stage.edit("t", {"spec": {"suspend": True}})
        await stage.until(lambda: stage.phase("t") == "Suspended" and not stage.members("t"), "a rest")
        await stage.edit("t", {"spec": {"suspend": False}})
        await stage.until_running("t", 2)
        await stage.until_said(first(stage), "rank 0 of 2 goes on after step [1-9]")
        await stage.finish()
        await stage.until_over("t")


async def replace_master(stage: Stage) -> None:
    """Kill the master, and wait for another that has found the workers."""
    old = master_uid(stage)
    stage.kill_master("t")
    await stage.until(lambda: master_uid(stage) not in ("", old), "another master", SLOW)
    await stage.until_said(master_pod("t"), "recovered master skips launching")


def master_uid(stage: Stage) -> str:
    """Which master there is now."""
    return str(stage.pods.get(master_pod("t"), {}).get("metadata", {}).get("uid", ""))
