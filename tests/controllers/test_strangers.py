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


@on_virtual_time
async def test_plans_for_jobs_of_impossible_names_fail_and_nobody_is_asked_for_them() -> None:
    async with staged() as stage:
        await stage.submit()
        odd = ["..", "../pods/x", "demo/status", "demo?watch=true", "%2e%2e", "x" * 5000, "dé"]
        for number, name in enumerate(odd):
            await stage.plan(f"by-hand-{number}", "manual", owner=name, **workers(1))
            await stage.plan(f"auto-{number}", owner=name, **workers(1))
        await passing(A_WHILE)
        told = {each["status"]["message"] for each in (await stage.plans()).values()}
        assert told == {"spec.ownerJob: must be the name of the ElasticJob that the plan is for"}
        assert not await stage.workers()
