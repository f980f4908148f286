"""What the operator does on the word of users who may not do it themselves: nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pliant.controllers.job import resource_of
from pliant.frontends import FRONTENDS
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS, CRDS, NAMESPACES, PODS, SERVICES
from tests.controllers.elastic import JOBS, PLANS, SPACE, staged, workers
from tests.controllers.operated import operated
from tests.controllers.test_names_in_the_way import CONTAINER, current_message, names, submit
from tests.controllers.test_orphans import operated as operated_without_garbage_collection
from tests.controllers.test_rejected_edits import long_case
from tests.controllers.test_rejected_edits import staged as staged_edits
from tests.edits.jobs import job_of
from tests.scenarios.messages import name_conflict
from tests.virtual_time import on_virtual_time, passing

A_WHILE = timedelta(seconds=20)
GROUPS_OF_TFJOB = ("kubeflow.org", "mpba.fbk.eu")


async def uids(client: KubeClient) -> dict[str, str]:
    pods = (await client.list(PODS, "default")).items
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


@pytest.mark.parametrize("group", GROUPS_OF_TFJOB)
@on_virtual_time
async def test_who_may_create_one_kind_cannot_delete_the_pods_of_its_namesake_of_another_group(group: str) -> None:
    [other] = {*GROUPS_OF_TFJOB} - {group}
    mine, theirs = FRONTENDS[group, "TFJob"], FRONTENDS[other, "TFJob"]
    async with operated_without_garbage_collection() as client:
        for frontend in (mine, theirs):
            await client.create(CRDS, None, frontend.crd())
        job = job_of((other, "TFJob"))
        await client.create(resource_of(theirs), "default", job)
        await passing(timedelta(minutes=2))
        before = await uids(client)
        assert before
        own = job_of((group, "TFJob"))
        own["metadata"]["name"] = job["metadata"]["name"]
        await client.create(resource_of(mine), "default", own)
        await passing(timedelta(minutes=5))
        await client.delete(resource_of(mine), "default", own["metadata"]["name"])
        await passing(timedelta(minutes=5))
        assert before.items() <= (await uids(client)).items()


@on_virtual_time
async def test_files_that_somebody_else_put_under_the_name_are_given_to_no_pod() -> None:
    async with operated(AITrainingJobFrontend()) as client:
        ports = [{"containerPort": number} for number in range(10_000, 11_500)]
        await submit(client, {**CONTAINER, "ports": ports})
        [files] = await names(client, CONFIG_MAPS)
        planted = await client.get(CONFIG_MAPS, "default", files)
        await client.delete(CONFIG_MAPS, "default", files)
        # Whoever may write ConfigMaps can also name the job as their owner.
        planted["data"] = dict.fromkeys(planted["data"], "planted")
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            del planted["metadata"][field]
        await client.create(CONFIG_MAPS, "default", planted)
        await client.delete(PODS, "default", "demo-w-0", grace_period_seconds=0)
        await passing(timedelta(seconds=5))
        assert await names(client, PODS) == ["demo-w-1"]
        assert name_conflict(await current_message(client)) == (files, "exists with other content")


@pytest.mark.parametrize("is_forged", [True, False], ids=["other content", "another ConfigMap"])
@on_virtual_time
async def test_a_spec_that_the_operator_has_not_accepted_is_never_fallen_back_to(is_forged: bool) -> None:
    case, other = long_case(), long_case()
    other.raw["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]["image"] = "planted"
    async with staged_edits(case) as stage:
        name = (await stage.status())["pliant"]["acceptedSpec"]["configMap"]
        body = {**other.raw, "metadata": {"name": "other"}}
        await stage.client.create(stage.jobs, "default", body)
        await passing(A_WHILE)
        theirs = (await stage.client.get(stage.jobs, "default", "other"))["status"]["pliant"]["acceptedSpec"]
        planted = await stage.client.get(CONFIG_MAPS, "default", theirs["configMap"])
        await stage.stop_operator()
        if is_forged:
            mine = await stage.client.get(CONFIG_MAPS, "default", name)
            await stage.client.delete(CONFIG_MAPS, "default", name)
            meta = {key: mine["metadata"][key] for key in ("name", "labels", "ownerReferences")}
            await stage.client.create(CONFIG_MAPS, "default", {**planted, "metadata": meta})
        else:
            status = {"status": {"pliant": {"acceptedSpec": {"configMap": theirs["configMap"]}}}}
            await stage.client.patch(stage.jobs, "default", stage.name, status, subresource="status")
        await stage.edit(case.edit)
        for pod in (await stage.client.list(PODS, "default")).items:
            if pod["metadata"]["name"].startswith(stage.name):
                await stage.client.delete(PODS, "default", pod["metadata"]["name"], grace_period_seconds=0)
        await stage.start_operator()
        await passing(A_WHILE)
        found = (await stage.client.list(PODS, "default")).items
        mine_now = [pod for pod in found if pod["metadata"]["name"].startswith(stage.name)]
        assert not [pod for pod in mine_now if pod["spec"]["containers"][0]["image"] == "planted"]


@on_virtual_time
async def test_a_plan_reaches_no_job_of_another_namespace_and_no_service_of_others() -> None:
    async with staged() as stage:
        await stage.submit()
        await passing(A_WHILE)
        await stage.client.create(
            NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
        )
        uid = (await stage.client.get(JOBS, SPACE, "demo"))["metadata"]["uid"]
        owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": "demo", "uid": uid}
        meta = {"name": "by-hand", "labels": {"elasticjob.dlrover/name": "demo"}, "ownerReferences": [owner]}
        spec = {"ownerJob": "demo", **workers(3)}
        body = {"apiVersion": PLANS.api_version, "kind": PLANS.kind, "metadata": meta, "spec": spec}
        await stage.client.create(PLANS, "other", body)
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "database"}}
        spec = {"ports": [{"port": 5432}], "selector": {"app": "database"}}
        before = await stage.client.create(SERVICES, SPACE, {**service, "spec": spec})
        await passing(A_WHILE)
        assert await stage.workers() == []
        await stage.plan("demo-scaleplan-0", createPods=[{"type": "worker", "service": "database:5432"}])
        await passing(timedelta(minutes=20))
        assert await stage.client.get(SERVICES, SPACE, "database") == before
