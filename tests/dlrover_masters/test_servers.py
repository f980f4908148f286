"""Jobs around parameter servers under DLRover's own masters, in both of their modes."""

from __future__ import annotations

import asyncio

import pytest

from pliant.kube.client import KubeClient
from tests.dlrover_masters.jobs import Master, around_servers
from tests.dlrover_masters.stage import LIST, SLOW, Stage, a_stage, master_pod
from tests.dlrover_masters.versions import RELEASES

MASTERS = [Master(version, platform) for version in RELEASES for platform in ("pyk8s", "k8s")]
EACH = pytest.mark.parametrize("master", MASTERS, ids=str)
RACES = 7
pytestmark = [pytest.mark.dlrover, pytest.mark.timeout(400)]


async def training(stage: Stage, master: Master, name: str = "t") -> None:
    """Submit a job of a server, a chief and a worker, and wait until they train together."""
    await stage.submit(around_servers(master, stage.namespace, name))
    await stage.until(lambda: len(stage.members(name)) == 3, f"all of {name}", SLOW)
    for member in ("chief-0", "worker-0"):
        await stage.until_said(f"{name}-edljob-{member}", f"begins around .*{name}-edljob-ps-0")


@EACH
async def test_servers_are_cleared_away_once_the_training_is_over(client: KubeClient, master: Master) -> None:
    async with a_stage(client, master) as stage:
        await training(stage, master)
        await stage.finish()
        await stage.until_over("t")
        names = ["t-edljob-chief-0", "t-edljob-ps-0", "t-edljob-worker-0"]
        assert sorted(stage.ever("t")) == names, "nobody was made twice"


@EACH
async def test_a_server_that_is_killed_is_replaced(client: KubeClient, master: Master) -> None:
    async with a_stage(client, master) as stage:
        await training(stage, master)
        stage.kill("t-edljob-ps-0")
        await stage.until(lambda: "t-edljob-ps-1" in stage.running("t", "ps"), "another server", SLOW)
        await stage.finish()
        await stage.until_over("t")


@EACH
async def test_a_new_master_adopts_servers_and_workers(client: KubeClient, master: Master) -> None:
    async with a_stage(client, master) as stage:
        await training(stage, master)
        before = stage.ever("t")
        stage.kill_master("t")
        await stage.until_said(master_pod("t"), "recovered master skips launching")
        await stage.finish()
        await stage.until_over("t")
        assert stage.ever("t") == before, "nobody was made twice"


@EACH
async def test_people_have_more_workers_and_fewer_around_servers(client: KubeClient, master: Master) -> None:
    async with a_stage(client, master) as stage:
        await training(stage, master)
        await stage.plan("t", "more", 2)
        await stage.until_running("t", 2)
        await stage.plan("t", "fewer", 1)
        await stage.until_running("t", 1)
        await stage.until(lambda: stage.plans_done("more", "fewer"), "both plans done", LIST)
        assert stage.running("t", "chief") == {"t-edljob-chief-0"}
        assert stage.running("t", "ps") == {"t-edljob-ps-0"}
        await stage.finish()
        await stage.until_over("t", within=LIST + SLOW)


@EACH
async def test_a_job_around_servers_rests_and_comes_back(client: KubeClient, master: Master) -> None:
    async with a_stage(client, master) as stage:
        await training(stage, master)
        await stage.edit("t", {"spec": {"suspend": True}})
        await stage.until(lambda: not stage.members("t"), "nobody at work", SLOW)
        assert stage.phase("t") == "Suspended"
        await stage.edit("t", {"spec": {"suspend": False}})
        for kind in ("ps", "chief", "worker"):
            await stage.until_running("t", 1, kind, within=LIST + SLOW)
        await stage.finish()
        await stage.until_over("t", within=LIST + SLOW)


@pytest.mark.parametrize("version", RELEASES)
async def test_no_job_is_lost_to_two_first_plans_of_one_name(client: KubeClient, version: str) -> None:
    master = Master(version, "k8s")
    names = [f"t{number}" for number in range(RACES)]
    async with a_stage(client, master) as stage:
        await asyncio.gather(*(training(stage, master, name) for name in names))
        empty = [plan["metadata"]["name"] for plan in stage.posted() if _is_empty(plan["spec"])]
        assert empty, "the race was run"
        await stage.finish()
        await asyncio.gather(*(stage.until_over(name) for name in names))


def _is_empty(spec: dict[str, object]) -> bool:
    return not any(value for field, value in spec.items() if field != "ownerJob")
