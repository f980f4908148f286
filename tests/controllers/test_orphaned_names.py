"""Jobs that meet pods of their names: those that an earlier job orphaned, and those of a job of another kind."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from pliant.controllers.job import resource_of
from pliant.controllers.object_differences import find_difference
from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS, PODS, SERVICES, Resource
from pliant.model.messages import Message, MessageReason
from tests.controllers.operated import operated
from tests.frontends import elasticjob, kubeflow, raw
from tests.scenarios.messages import message_in, name_conflict
from tests.virtual_time import on_virtual_time, passing

AITRAININGJOB, PYTORCHJOB = (
    FRONTENDS["elasticdeeplearning.ai", "AITrainingJob"],
    FRONTENDS["kubeflow.org", "PyTorchJob"],
)
JOBS, PYTORCHJOBS = resource_of(AITRAININGJOB), resource_of(PYTORCHJOB)
SHORT = timedelta(seconds=10)


def a_job(image: str = "train", size: int = 2, **container: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": image, "command": ["true"], **container}]}}
    manifest = raw.raw_job({"worker": {"replicas": size, "template": template}})
    manifest["metadata"] = {"name": "demo", "namespace": "default"}
    return manifest


def a_pytorchjob(**spec: Any) -> dict[str, Any]:
    manifest = kubeflow.raw_of("PyTorchJob", {"Worker": 2}, **spec)
    manifest["metadata"] = {"name": "demo", "namespace": "default"}
    return manifest


async def submit(client: KubeClient, resource: Resource, manifest: dict[str, Any]) -> str:
    uid: str = (await client.create(resource, "default", manifest))["metadata"]["uid"]
    await passing(SHORT)
    return uid


async def orphan(client: KubeClient, resource: Resource) -> None:
    """As `kubectl delete --cascade=orphan`."""
    await client.delete(resource, "default", "demo", propagation="Orphan")
    await passing(SHORT)


async def owners(client: KubeClient, resource: Resource) -> dict[str, set[str]]:
    """The objects in the namespace, and the uids of their owners."""
    objects = (await client.list(resource, "default")).items
    return {
        each["metadata"]["name"]: {ref["uid"] for ref in each["metadata"].get("ownerReferences", ())}
        for each in objects
    }


async def uids(client: KubeClient) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in (await client.list(PODS, "default")).items}


async def message_about(client: KubeClient, resource: Resource) -> Message:
    return message_in((await client.get(resource, "default", "demo"))["status"])


@on_virtual_time
async def test_orphaned_pods_of_the_same_template_are_adopted() -> None:
    async with operated(AITRAININGJOB, PYTORCHJOB) as client:
        await submit(client, JOBS, a_job())
        before = await uids(client)
        await orphan(client, JOBS)
        assert set(before) == {"demo-worker-0", "demo-worker-1"}
        assert not any((await owners(client, PODS)).values())

        uid = await submit(client, JOBS, a_job())
        assert await uids(client) == before
        assert await owners(client, PODS) == {name: {uid} for name in before}
        assert await owners(client, SERVICES) == {name: {uid} for name in before}
        for service in (await client.list(SERVICES, "default")).items:
            assert service["spec"]["selector"]["pliant/job-uid"] == uid
        for pod in (await client.list(PODS, "default")).items:
            assert pod["metadata"]["labels"]["pliant/job-uid"] == uid


@pytest.mark.parametrize(
    ("again", "problem"),
    [
        (a_job("other"), "exists, belongs to no job and has another template"),
        (a_job(size=3), "exists, belongs to no job and differs in spec.containers[0].env.WORKER_INSTANCES.value"),
    ],
    ids=["another template", "another size"],
)
@on_virtual_time
async def test_orphaned_pods_that_cannot_be_members_are_a_conflict(again: dict[str, Any], problem: str) -> None:
    async with operated(AITRAININGJOB, PYTORCHJOB) as client:
        await submit(client, JOBS, a_job())
        before = await uids(client)
        await orphan(client, JOBS)

        uid = await submit(client, JOBS, again)
        assert name_conflict(await message_about(client, JOBS)) == ("demo-worker-0", problem)
        assert await uids(client) == before, "nothing started"
        assert not any((await owners(client, PODS)).values()), "nothing adopted"

        for name in before:
            await client.delete(PODS, "default", name, grace_period_seconds=0)
        await passing(timedelta(minutes=2))
        assert all(each == {uid} for each in (await owners(client, PODS)).values())
        assert len(await uids(client)) == again["spec"]["replicaSpecs"]["worker"]["replicas"]
        assert (await message_about(client, JOBS)).reason != MessageReason.NAME_CONFLICT


@on_virtual_time
async def test_an_orphan_that_has_finished_is_no_result_of_the_next_job() -> None:
    async with operated(AITRAININGJOB, PYTORCHJOB) as client:
        await submit(client, JOBS, a_job())
        await orphan(client, JOBS)
        for name in await uids(client):
            await client.patch(PODS, "default", name, {"status": {"phase": "Succeeded"}}, subresource="status")
        await submit(client, JOBS, a_job())
        told = name_conflict(await message_about(client, JOBS))
        assert told == ("demo-worker-0", "exists, belongs to no job and has finished")


@on_virtual_time
async def test_elastic_pods_of_another_rendezvous_are_not_adopted() -> None:
    elastic = a_pytorchjob(elasticPolicy={"minReplicas": 1, "maxReplicas": 4})
    async with operated(AITRAININGJOB, PYTORCHJOB) as client:
        await submit(client, PYTORCHJOBS, elastic)
        await orphan(client, PYTORCHJOBS)
        await submit(client, PYTORCHJOBS, elastic)
        _, problem = name_conflict(await message_about(client, PYTORCHJOBS))
        assert problem.endswith("env.PET_RDZV_ID.value")


@on_virtual_time
async def test_the_second_of_two_jobs_of_one_name_starts_nothing_and_names_the_first() -> None:
    async with operated(AITRAININGJOB, PYTORCHJOB) as client:
        first = await submit(client, JOBS, a_job())
        before = await uids(client)
        second = await submit(client, PYTORCHJOBS, a_pytorchjob())
        conflict = await message_about(client, PYTORCHJOBS)
        assert conflict.reason == MessageReason.NAME_CONFLICT
        assert conflict.parameters["ownerKind"] == "AITrainingJob"
        assert conflict.parameters["ownerUid"] == first
        assert await uids(client) == before

        await client.delete(JOBS, "default", "demo", propagation="Background")
        await passing(timedelta(minutes=2))
        assert await owners(client, PODS) == {"demo-worker-0": {second}, "demo-worker-1": {second}}
        assert (await message_about(client, PYTORCHJOBS)).reason != MessageReason.NAME_CONFLICT


@on_virtual_time
async def test_two_jobs_of_one_name_that_hold_a_service_each_do_not_wait_for_each_other_for_ever() -> None:
    async with operated(AITRAININGJOB, PYTORCHJOB) as client:
        jobs = {}
        for resource, manifest in ((JOBS, a_job()), (PYTORCHJOBS, a_pytorchjob())):
            manifest["metadata"]["annotations"] = {"pliant/service-per-replica": "true"}
            manifest["spec"] |= {"suspend": True} if resource is JOBS else {"runPolicy": {"suspend": True}}
            jobs[resource] = await submit(client, resource, manifest)
        for index, (resource, uid) in enumerate(jobs.items()):
            owner = {"apiVersion": resource.api_version, "kind": resource.kind, "name": "demo", "uid": uid}
            meta = {
                "name": f"demo-worker-{index}",
                "labels": {"app.kubernetes.io/managed-by": "pliant", "TrainingJobName": "demo"},
                "ownerReferences": [{**owner, "controller": True}],
            }
            service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"clusterIP": "None"}}
            await client.create(SERVICES, "default", service)
        await client.patch(JOBS, "default", "demo", {"spec": {"suspend": False}})
        await client.patch(PYTORCHJOBS, "default", "demo", {"spec": {"runPolicy": {"suspend": False}}})
        await passing(timedelta(minutes=5))
        [winner] = (await owners(client, PODS))["demo-worker-0"]
        assert winner in jobs.values()
        assert await owners(client, SERVICES) == {f"demo-worker-{index}": {winner} for index in (0, 1)}
        assert await owners(client, PODS) == {f"demo-worker-{index}": {winner} for index in (0, 1)}


@on_virtual_time
async def test_a_job_made_again_at_once_waits_for_the_pods_of_the_first_without_a_conflict() -> None:
    async with operated(AITRAININGJOB, PYTORCHJOB) as client:
        await submit(client, JOBS, a_job())
        await client.delete(JOBS, "default", "demo", propagation="Background")
        uid = (await client.create(JOBS, "default", a_job("other")))["metadata"]["uid"]
        await passing(timedelta(minutes=2))
        assert all(each == {uid} for each in (await owners(client, PODS)).values())
        timeline = (await client.get(JOBS, "default", "demo"))["status"]
        assert "NameConflict" not in str(timeline)


@pytest.mark.parametrize(
    ("expected", "actual", "path"),
    [
        ({"a": 1}, {"a": 1, "default": 2}, ""),
        ({"a": 1}, {"a": 2}, "spec.a"),
        ({"a": []}, {}, ""),
        ({"a": [1, 2]}, {"a": [1]}, "spec.a"),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}, {"d": 3}]}, ""),
        ({"resources": {"limits": {"cpu": "1000m"}}}, {"resources": {"limits": {"cpu": "1"}}}, ""),
        ({"resources": {"limits": {"cpu": 2}}}, {"resources": {"limits": {"cpu": "1"}}}, "spec.resources.limits.cpu"),
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "B"}, {"name": "A", "value": "1"}]}, ""),
        ({"env": [{"name": "A", "value": "1"}]}, {}, "spec.env.A"),
        ({"env": [{"name": "PLIANT_REPORT_URL", "value": "1"}]}, {}, ""),
    ],
)
def test_what_the_api_server_adds_is_no_difference(expected: Any, actual: Any, path: str) -> None:
    assert find_difference(expected, actual, "spec") == path


@on_virtual_time
async def test_a_service_that_another_job_left_behind_is_not_adopted() -> None:
    async with operated(AITRAININGJOB, PYTORCHJOB) as client:
        other = a_pytorchjob()
        other["metadata"]["name"] = "demo-worker-0"
        await client.create(PYTORCHJOBS, "default", other)
        await passing(SHORT)
        await client.delete(PYTORCHJOBS, "default", "demo-worker-0", propagation="Orphan")
        await submit(client, JOBS, a_job())
        told = name_conflict(await message_about(client, JOBS))
        assert told == ("demo-worker-0", "exists and belongs to no job")


@on_virtual_time
async def test_an_adopted_service_selects_only_what_the_job_says() -> None:
    async with operated(AITRAININGJOB, PYTORCHJOB) as client:
        await submit(client, JOBS, a_job())
        await orphan(client, JOBS)
        await client.patch(SERVICES, "default", "demo-worker-0", {"spec": {"selector": {"of": "old"}}})
        await passing(SHORT)
        await submit(client, JOBS, a_job())
        selector = (await client.get(SERVICES, "default", "demo-worker-0"))["spec"]["selector"]
        assert "of" not in selector


@on_virtual_time
async def test_a_job_that_notices_late_that_its_names_are_taken_deletes_what_it_has_started() -> None:
    async with operated(AITRAININGJOB, PYTORCHJOB) as client:
        late = kubeflow.raw_of("PyTorchJob", {"Master": 1, "Worker": 2})
        late["metadata"] = {"name": "demo", "namespace": "default"}
        await asyncio.gather(client.create(JOBS, "default", a_job()), client.create(PYTORCHJOBS, "default", late))
        await passing(timedelta(minutes=3))
        uids_of_owners = set().union(*(await owners(client, PODS)).values())
        assert len(uids_of_owners) == 1, "one job has all its pods, the other none"


@on_virtual_time
async def test_members_that_an_elasticjob_left_behind_are_in_the_way_of_the_next() -> None:
    frontend = FRONTENDS["elastic.iml.github.io", "ElasticJob"]
    elasticjobs = resource_of(frontend)
    async with operated(frontend) as client:
        left = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "demo-edljob-worker-0",
                "labels": {"app.kubernetes.io/managed-by": "pliant", "TrainingJobName": "demo"},
            },
            "spec": {"containers": [{"name": "main", "image": "train"}]},
        }
        await client.create(PODS, "default", left)
        manifest = elasticjob.raw_ej()
        manifest["metadata"] = {"name": "demo", "namespace": "default"}
        await submit(client, elasticjobs, manifest)
        told = name_conflict(await message_about(client, elasticjobs))
        assert told == ("demo-edljob-worker-0", "exists and belongs to no job")
        await client.delete(PODS, "default", "demo-edljob-worker-0", grace_period_seconds=0)
        await passing(timedelta(minutes=2))
        assert set(await uids(client)) == {"elasticjob-demo-dlrover-master-0"}


@on_virtual_time
async def test_pods_that_are_no_longer_new_stay_when_another_name_is_taken() -> None:
    async with operated(AITRAININGJOB, PYTORCHJOB) as client:
        await submit(client, PYTORCHJOBS, a_pytorchjob(elasticPolicy={"minReplicas": 1, "maxReplicas": 4}))
        await passing(timedelta(minutes=2))
        before = await uids(client)
        web = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}
        uid = (await client.create(CONFIG_MAPS, "default", web))["metadata"]["uid"]
        owner = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "uid": uid, "controller": True}]
        taken = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "demo-worker-2",
                "labels": {"app.kubernetes.io/managed-by": "pliant"},
                "ownerReferences": owner,
            },
            "spec": {"containers": [{"name": "main", "image": "train"}]},
        }
        await client.create(PODS, "default", taken)
        await client.patch(
            PYTORCHJOBS, "default", "demo", {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}}}
        )
        await passing(SHORT)
        kept = {name: uid for name, uid in (await uids(client)).items() if name in before}
        assert kept == before
        assert name_conflict(await message_about(client, PYTORCHJOBS))[0] == "demo-worker-2"
