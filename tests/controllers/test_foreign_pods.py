"""Pods that masters make by themselves, on nodes that fail."""

from __future__ import annotations

from datetime import timedelta

from pliant.kube.resources import PODS
from pliant.model.operator_config import OperatorConfig
from tests.controllers.elastic import SPACE, foreign_pod, staged
from tests.faults.acts import lose_node
from tests.virtual_time import on_virtual_time, passing

THEIRS = ["python", "-m", "dlrover.python.master.main"]


@on_virtual_time
async def test_a_pod_on_a_node_that_is_lost_is_let_go_so_that_its_master_learns_of_it() -> None:
    async with staged(rules=OperatorConfig(node_grace_period=timedelta(seconds=2))) as stage:
        job = await stage.submit(command=THEIRS)
        for index in range(3):
            await stage.client.create(PODS, SPACE, foreign_pod(job, index))
        await passing(timedelta(seconds=1))
        pods = await stage.pods()
        lost = pods["demo-edljob-worker-2"]["spec"]["nodeName"]
        there = {name for name, pod in pods.items() if pod["spec"]["nodeName"] == lost and "-worker-" in name}
        assert there == {"demo-edljob-worker-2"}
        await lose_node(stage.client, lost, after=0.0)
        await passing(timedelta(seconds=10))
        assert await stage.workers() == ["0", "1"]
        assert "demo-edljob-worker-2" not in await stage.pods()


@on_virtual_time
async def test_a_pod_without_an_owner_is_nobodys_business() -> None:
    async with staged() as stage:
        job = await stage.submit(command=THEIRS)
        stranger = foreign_pod(job, 0)
        del stranger["metadata"]["ownerReferences"]
        await stage.client.create(PODS, SPACE, stranger)
        await passing(timedelta(seconds=5))
        counts = (await stage.job())["status"]["replicaStatuses"].get("worker") or {}
        assert counts.get("active", 0) == 0
        await stage.client.patch(PODS, SPACE, "demo-edljob-worker-0", {"metadata": {"labels": {"a": "b"}}})
        await passing(timedelta(seconds=5))
        assert await stage.workers() == ["0"]
