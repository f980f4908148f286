"""Somebody else's objects under the names a job needs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS, EVENTS, PODS, SERVICES, Resource
from pliant.model.messages import Message, MessageReason, message
from tests.controllers.operated import operated
from tests.faults.rig import JOBS
from tests.scenarios.messages import create_errors, message_in, message_of
from tests.virtual_time import on_virtual_time, passing

CONTAINER: dict[str, Any] = {"name": "main", "image": "train"}
INTRUDERS: dict[Resource, dict[str, Any]] = {
    PODS: {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "demo-w-0"}, "spec": {"containers": [CONTAINER]}},
    SERVICES: {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "demo-w-0"}, "spec": {"clusterIP": "None"}},
}


async def submit(client: KubeClient, container: dict[str, Any] = CONTAINER) -> None:
    spec = {"replicaSpecs": {"w": {"replicas": 2, "template": {"spec": {"containers": [container]}}}}}
    meta = {"name": "demo", "namespace": "default"}
    await client.create(
        JOBS, "default", {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": meta, "spec": spec}
    )
    await passing(timedelta(seconds=5))


async def names(client: KubeClient, resource: Resource) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in (await client.list(resource, "default")).items)


async def told(client: KubeClient) -> list[Message]:
    """What events say of objects that cannot be created."""
    events = (await client.list(EVENTS, "default")).items
    return [message_of(event) for event in events if event["reason"] in ("FailedCreate", "NameConflict")]


async def current_message(client: KubeClient) -> Message:
    return message_in((await client.get(JOBS, "default", "demo"))["status"])


async def errors(client: KubeClient) -> dict[str, str]:
    """The objects that cannot be created, and why, as the job tells."""
    return create_errors(await current_message(client))


@pytest.mark.parametrize("resource", INTRUDERS, ids=lambda resource: resource.kind)
@on_virtual_time
async def test_an_object_in_the_way_is_told_left_alone_and_waited_for(resource: Resource) -> None:
    async with operated(AITrainingJobFrontend()) as client:
        intruder = await client.create(resource, "default", INTRUDERS[resource])
        await submit(client)
        why = "exists and belongs to no job"
        conflict = message(MessageReason.NAME_CONFLICT, kind=resource.kind, object="demo-w-0", problem=why)
        assert await current_message(client) == conflict
        assert await told(client) == [conflict]
        found = await client.get(resource, "default", "demo-w-0")
        assert found["metadata"]["uid"] == intruder["metadata"]["uid"]
        await client.delete(resource, "default", "demo-w-0")
        await passing(timedelta(minutes=5))
        assert await names(client, PODS) == ["demo-w-0", "demo-w-1"]
        assert await names(client, SERVICES) == ["demo-w-0", "demo-w-1"]


@on_virtual_time
async def test_whose_object_is_in_the_way_is_told_and_it_is_left_alone() -> None:
    async with operated(AITrainingJobFrontend()) as client:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}
        uid = (await client.create(CONFIG_MAPS, "default", body))["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "uid": uid, "controller": True}
        intruder = INTRUDERS[PODS]
        meta = {**intruder["metadata"], "ownerReferences": [owner]}
        foreign = await client.create(PODS, "default", {**intruder, "metadata": meta})
        await submit(client)
        assert await client.get(PODS, "default", "demo-w-0") == foreign, "it is left alone"
        conflict = (await told(client))[0]
        assert conflict.parameters == {
            "kind": "Pod",
            "object": "demo-w-0",
            "problem": f"belongs to ConfigMap web (uid {uid})",
            "ownerKind": "ConfigMap",
            "ownerName": "web",
            "ownerUid": uid,
        }


@pytest.mark.parametrize("resource", INTRUDERS, ids=lambda resource: resource.kind)
@on_virtual_time
async def test_a_member_that_lost_our_label_is_told_and_found_again_when_it_is_back(resource: Resource) -> None:
    async with operated(AITrainingJobFrontend()) as client:
        await submit(client)
        for value in (None, "pliant"):
            labels = {"metadata": {"labels": {"app.kubernetes.io/managed-by": value}}}
            await client.patch(resource, "default", "demo-w-0", labels)
            await passing(timedelta(minutes=2))
            found = await errors(client)
            why = "exists without the label app.kubernetes.io/managed-by=pliant: restore the label"
            assert (why in found.get("demo-w-0", "")) == (value is None), found


@on_virtual_time
async def test_no_member_starts_while_a_name_of_one_is_taken() -> None:
    async with operated(AITrainingJobFrontend()) as client:
        await client.create(SERVICES, "default", INTRUDERS[SERVICES])
        await submit(client)
        assert await names(client, PODS) == []


@on_virtual_time
async def test_no_member_starts_without_the_files_it_reads() -> None:
    async with operated(AITrainingJobFrontend()) as client:
        ports = [{"containerPort": number} for number in range(10_000, 11_500)]
        await submit(client, {**CONTAINER, "ports": ports})
        [files] = await names(client, CONFIG_MAPS)
        assert await names(client, PODS) == ["demo-w-0", "demo-w-1"]

        await client.delete(CONFIG_MAPS, "default", files)
        await client.create(
            CONFIG_MAPS, "default", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": files}}
        )
        await client.delete(PODS, "default", "demo-w-0", grace_period_seconds=0)
        await passing(timedelta(seconds=5))
        assert await names(client, PODS) == ["demo-w-1"]
        assert (await current_message(client)).parameters["object"] == files

        await client.delete(CONFIG_MAPS, "default", files)
        await passing(timedelta(minutes=5))
        assert await names(client, PODS) == ["demo-w-0", "demo-w-1"]
        assert await names(client, CONFIG_MAPS) == [files]
