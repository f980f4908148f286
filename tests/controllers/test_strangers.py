"""Objects that claim to belong to a job and do not."""

from __future__ import annotations

from datetime import timedelta

from pliant.kube.resources import NAMESPACES, PODS
from tests.controllers.elastic import MASTER, SPACE, foreign_pod, staged, workers
from tests.virtual_time import on_virtual_time, passing

A_WHILE = timedelta(seconds=20)


@on_virtual_time
async def test_pods_of_another_namespace_belong_to_no_job_whatever_owner_they_name() -> None:
    async with staged() as stage:
        job = await stage.submit()
        await stage.client.create(
            NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
        )
        stranger = foreign_pod(job, 0)
        stranger["metadata"]["name"] = f"{MASTER}-0"
        await stage.client.create(PODS, "other", stranger)
        await stage.client.create(PODS, "other", foreign_pod(job, 5))
        await passing(A_WHILE)
        assert list(await stage.pods()) == [f"{MASTER}-0"]
        await stage.plan("p0", **workers(1))
        await passing(A_WHILE)
        assert await stage.workers() == ["0"]
        assert (await stage.job())["workers"] == "1/1"


@on_virtual_time
async def test_a_number_in_a_label_that_nobody_counts_up_to_gives_nobody_such_an_id() -> None:
    async with staged() as stage:
        job = await stage.submit(command=["theirs"])
        odd = foreign_pod(job, 0)
        odd["metadata"]["name"] = "odd"
        odd["metadata"]["labels"]["elasticjob.dlrover/replica-index"] = "9" * 63
        await stage.client.create(PODS, SPACE, odd)
        await passing(A_WHILE)
        await stage.plan("p0", createPods=[{"type": "worker"}])
        await passing(A_WHILE)
        assert await stage.workers() == ["0"]
