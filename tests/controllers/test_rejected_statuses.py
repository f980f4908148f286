"""A status that the server refuses: an event and the log name the field, and the operator tries again, ever later."""

from __future__ import annotations

import asyncio
import copy
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from pliant.controllers.job import resource_of
from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, EVENTS, PODS
from tests.frontends.kubeflow import raw_of
from tests.virtual_time import VirtualClock, on_virtual_time, passing

Raw = dict[str, Any]
MPIJOB = FRONTENDS["kubeflow.org", "MPIJob"]
JOBS = resource_of(MPIJOB)
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
COMMAND = "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command"
PATIENCE = timedelta(minutes=10)


def with_schema(crd: Raw, schema: Raw) -> Raw:
    """The definition with another schema."""
    changed = copy.deepcopy(crd)
    for version in changed["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"] = copy.deepcopy(schema)
    return changed


def malformed() -> Raw:
    """A job whose command is a string."""
    raw = copy.deepcopy(raw_of("MPIJob", {"Launcher": 1}))
    raw["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"] = "mpirun x"
    return raw


@asynccontextmanager
async def watched(raw: Raw, *schemas: Raw) -> AsyncIterator[KubeClient]:
    """A job that was stored under the first definition, and an operator that finds the last one."""
    clock, crd = VirtualClock(), MPIJOB.crd()
    async with ApiServer.start(
        Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)
    ) as api:
        client = KubeClient(InProcessTransport(api))
        await client.create(CRDS, None, with_schema(crd, schemas[0]))
        await client.create(JOBS, "default", {**raw, "metadata": {"name": "odd", "namespace": "default"}})
        for schema in schemas[1:]:
            current = await client.get(CRDS, None, crd["metadata"]["name"])
            await client.replace(CRDS, None, crd["metadata"]["name"], with_schema(current, schema))
        running = asyncio.create_task(Operator(client, clock).run())
        await passing(PATIENCE)
        yield client
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def notes(client: KubeClient, reason: str) -> list[str]:
    """What events of a reason say."""
    return [
        str(event["message"]) for event in (await client.list(EVENTS, "default")).items if event["reason"] == reason
    ]


def current_schema() -> Raw:
    schema: Raw = MPIJOB.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@on_virtual_time
async def test_a_job_that_a_stricter_definition_finds_is_refused_by_field() -> None:
    async with watched(malformed(), ANYTHING, current_schema()) as client:
        [invalid] = (await client.get(JOBS, "default", "odd"))["status"]["conditions"]
        assert (invalid["type"], invalid["reason"]) == ("Invalid", "InvalidSpec")
        assert invalid["message"].startswith(f"{COMMAND}: must be a list")
        assert await notes(client, "InvalidSpec") == [invalid["message"]]
        assert (await client.list(PODS, "default")).items == []


def with_strict_status() -> Raw:
    """A definition of somebody else, whose status has another form."""
    return {"type": "object", "properties": {"spec": ANYTHING, "status": {"type": "string"}}}


@pytest.mark.parametrize("raw", [malformed(), raw_of("MPIJob", {"Launcher": 1})], ids=["refused job", "good job"])
@on_virtual_time
async def test_a_status_that_cannot_be_written_is_told_by_event_and_log(
    raw: Raw, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with watched(raw, with_strict_status()) as client:
        [note] = await notes(client, "StatusRejected")
        assert "status: Invalid value" in note
        assert note.endswith("pliant crds --kinds mpijobs.kubeflow.org | kubectl apply -f -")
        told = [record for record in caplog.records if record.message == "reconcile failed"]
        assert "status: Invalid value" in told[-1].__dict__["error"]
        waits = [record.__dict__["retry_in"] for record in told]
        assert waits[-1] > 20 * waits[0]
        assert len(waits) < 40


@on_virtual_time
async def test_a_refused_job_is_told_though_its_status_cannot_be_written() -> None:
    async with watched(malformed(), with_strict_status()) as client:
        [note] = await notes(client, "InvalidSpec")
        assert note.startswith(f"{COMMAND}: must be a list")
