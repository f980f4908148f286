"""The built-in operator of a local cluster works only while no installed operator leads."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pliant.cli.cluster.local_leadership import LEASES_RESOURCE_KEY, LocalLeadership
from pliant.cli.cluster.local_operator import run_local_operator
from pliant.cli.cluster.operator_manifests import (
    OPERATOR_NAME,
    OPERATOR_NAMESPACE,
    OperatorInstallation,
    operator_deployment_manifests,
)
from pliant.embedded.controllers.workloads.views import DEPLOYMENTS
from pliant.embedded.storage.store import ChangeListener
from pliant.embedded.storage.stored_objects import ObjectChange, StoredObject
from pliant.errors import ApiError, LeaseLost
from pliant.kube.client import KubeClient
from pliant.kube.election.elector import LeaderElector
from pliant.kube.election.lease import LeaseCandidate, LeaseTimings
from pliant.kube.resources import CONFIG_MAPS, LEASES, NAMESPACES, PODS, Resource
from pliant.model.operator_config import OperatorConfig
from tests.embedded.serving import Served, serving
from tests.node.running import eventually, running
from tests.virtual_time import VirtualClock, on_virtual_time, quiet

DURATION = timedelta(seconds=15)


class Local:
    """What the built-in operator needs of a local cluster."""

    def __init__(self, server: Served) -> None:
        self._store = server.api.store

    def observe_objects(self, resource_key: str, on_commit: ChangeListener) -> tuple[StoredObject, ...]:
        self._store.add_listener(on_commit)
        return tuple(self._store.committed.list_objects(resource_key))


class Journal:
    """Who wrote the ConfigMap, and who held the Lease then."""

    def __init__(self, server: Served) -> None:
        self.entries: list[tuple[str, str]] = []
        self._holder = ""
        server.api.store.add_listener(self._on_commit)

    def _on_commit(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            obj = change.after.decode()
            if change.after.key.resource == LEASES_RESOURCE_KEY:
                self._holder = obj["spec"].get("holderIdentity", "")
            elif change.after.key.resource == "/configmaps":
                self.entries.append((obj["data"]["writer"], self._holder))

    @property
    def writers(self) -> list[str]:
        """Return the writers in their order, each turn once."""
        names = [writer for writer, _ in self.entries]
        return [name for index, name in enumerate(names) if index == 0 or names[index - 1] != name]


async def write_forever(client: KubeClient, writer: str) -> None:
    """Write all the time, as an operator with much to do."""
    for number in itertools.count():
        with suppress(ApiError):
            await client.patch(CONFIG_MAPS, "default", "work", {"data": {"writer": writer, "number": str(number)}})
        await asyncio.sleep(0.1)


async def prepare(server: Served) -> None:
    await server.client.create(NAMESPACES, None, {"metadata": {"name": OPERATOR_NAMESPACE}})
    await server.client.create(CONFIG_MAPS, "default", {"metadata": {"name": "work"}, "data": {"writer": ""}})


def start_builtin(server: Served, standby: list[float]) -> asyncio.Task[None]:
    leadership = LocalLeadership.observe(Local(server), OPERATOR_NAME)  # type: ignore[arg-type]
    client = KubeClient(leadership.with_gate(server.transport))
    loop = asyncio.get_running_loop()
    work = leadership.run_while_free(
        lambda: write_forever(client, "builtin"), on_standby=lambda: standby.append(loop.time())
    )
    return asyncio.create_task(work)


def start_installed(server: Served, identity: str = "installed") -> asyncio.Task[None]:
    clock = VirtualClock()
    candidate = LeaseCandidate(namespace=OPERATOR_NAMESPACE, name=OPERATOR_NAME, identity=identity)
    timings = LeaseTimings.from_duration(DURATION)
    elector = LeaderElector(server.transport, candidate, timings, now=clock.now, uptime=clock.uptime)
    return asyncio.create_task(elector.run_as_leader(lambda client: write_forever(client, identity)))


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@on_virtual_time
async def test_only_one_of_both_operators_writes_at_a_time() -> None:
    async with serving() as server:
        await prepare(server)
        journal, standby = Journal(server), list[float]()
        builtin = start_builtin(server, standby)
        await asyncio.sleep(1)
        for _ in range(3):
            installed = start_installed(server)
            await asyncio.sleep(10)
            await stop(installed)
            await asyncio.sleep(1)
        await stop(builtin)
        assert journal.writers == [*["builtin", "installed"] * 3, "builtin"]
        assert not [entry for entry in journal.entries if entry[0] == "builtin" and entry[1]]
        assert len(standby) == 3


@on_virtual_time
async def test_the_builtin_operator_waits_until_the_lease_of_a_killed_one_expires() -> None:
    async with serving() as server:
        await prepare(server)
        lease = {"metadata": {"name": OPERATOR_NAME}, "spec": {"holderIdentity": "killed", "leaseDurationSeconds": 20}}
        await server.client.create(LEASES, OPERATOR_NAMESPACE, lease)
        journal, standby = Journal(server), list[float]()
        builtin = start_builtin(server, standby)
        await asyncio.sleep(19)
        assert journal.entries == []
        assert len(standby) == 1
        await asyncio.sleep(2)
        assert journal.writers == ["builtin"]
        await stop(builtin)


@on_virtual_time
async def test_a_deleted_lease_is_respected_until_it_would_have_expired() -> None:
    async with serving() as server:
        await prepare(server)
        journal = Journal(server)
        installed = start_installed(server)
        await asyncio.sleep(1)
        builtin = start_builtin(server, [])
        await stop(installed)
        lease = {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 15}}
        await server.client.patch(LEASES, OPERATOR_NAMESPACE, OPERATOR_NAME, lease)
        await server.client.delete(LEASES, OPERATOR_NAMESPACE, OPERATOR_NAME)
        await quiet()
        before = len(journal.entries)
        await asyncio.sleep(14)
        assert len(journal.entries) == before
        await asyncio.sleep(2)
        assert journal.writers[-1] == "builtin"
        await stop(builtin)


@on_virtual_time
async def test_other_leases_do_not_stop_the_builtin_operator() -> None:
    async with serving() as server:
        await prepare(server)
        standby: list[float] = []
        builtin = start_builtin(server, standby)
        other = {"metadata": {"name": "scheduler"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15}}
        await server.client.create(LEASES, OPERATOR_NAMESPACE, other)
        await asyncio.sleep(1)
        assert standby == []
        await stop(builtin)


@on_virtual_time
async def test_an_error_of_the_builtin_operator_ends_it() -> None:
    async with serving() as server:
        leadership = LocalLeadership.observe(Local(server), OPERATOR_NAME)  # type: ignore[arg-type]

        async def fail() -> None:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await leadership.run_while_free(fail, lambda: None)


@on_virtual_time
async def test_a_request_while_another_operator_leads_is_refused() -> None:
    async with serving() as server:
        await prepare(server)
        leadership = LocalLeadership.observe(Local(server), OPERATOR_NAME)  # type: ignore[arg-type]
        client = KubeClient(leadership.with_gate(server.transport))
        installed = start_installed(server)
        await asyncio.sleep(0.1)
        with pytest.raises(LeaseLost, match="installed"):
            await client.get(CONFIG_MAPS, "default", "work")
        await stop(installed)
        await client.get(CONFIG_MAPS, "default", "work")


JOBS = Resource("elasticdeeplearning.ai", "v1", "aitrainingjobs", "AITrainingJob")


@pytest.mark.deep
async def test_jobs_continue_when_the_operator_is_installed_and_deleted(tmp_path: Path) -> None:
    async with running(tmp_path) as here, run_local_operator(here.cluster, OperatorConfig(), None):
        client = here.client
        await client.create(JOBS, "default", training_job("before"))
        await here.until("before-worker-0", lambda pod: pod["status"]["phase"] == "Running")
        await install(client)
        holder: list[str] = []
        leading = asyncio.create_task(follow_holder(client, holder))
        await eventually(lambda: bool(holder and holder[-1]), what="the installed operator leads", within=60)
        await client.create(JOBS, "default", training_job("during"))
        for name in ("before", "during"):
            await replaced(here, f"{name}-worker-0")
        await client.delete(DEPLOYMENTS, OPERATOR_NAMESPACE, OPERATOR_NAME)
        await eventually(lambda: not holder[-1], what="the installed operator ends", within=60)
        await client.create(JOBS, "default", training_job("after"))
        for name in ("before", "during", "after"):
            await replaced(here, f"{name}-worker-0")
        leading.cancel()
        statuses = [each["status"] for each in (await client.list(JOBS, "default")).items]
        assert {each["phase"] for each in statuses} == {"Running"}
        assert {each["restarts"] for each in statuses} == {0}


def training_job(name: str) -> dict[str, Any]:
    container = {"name": "aitj-worker", "image": "none:1", "command": ["sleep", "600"]}
    template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}
    spec = {"replicaSpecs": {"worker": {"replicas": 1, "restartPolicy": "OnFailure", "template": template}}}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": {"name": name}, "spec": spec}


async def install(client: KubeClient) -> None:
    """Apply what `pliant install` prints, except for the CRDs, which exist."""
    await client.create(NAMESPACES, None, {"metadata": {"name": OPERATOR_NAMESPACE}})
    for manifest in operator_deployment_manifests(OperatorInstallation()):
        group, _, version = manifest["apiVersion"].rpartition("/")
        kind, namespace = manifest["kind"], manifest["metadata"].get("namespace")
        plural = f"{kind.lower()}s"
        resource = Resource(group, version, plural, kind, namespaced=namespace is not None)
        await client.apply(resource, namespace, manifest, force=True)


async def follow_holder(client: KubeClient, holder: list[str]) -> None:
    selector = f"metadata.name={OPERATOR_NAME}"
    async for event in client.watch(LEASES, OPERATOR_NAMESPACE, resource_version="0", fields=selector):
        spec = (event.object or {}).get("spec") or {}
        holder.append(spec.get("holderIdentity") or "")


async def replaced(here: Any, name: str) -> None:
    """Delete a pod, and wait until the operator has replaced it."""
    pod = await here.until(name, lambda pod: pod["status"]["phase"] == "Running", within=30)
    await here.client.delete(PODS, "default", name)
    uid = pod["metadata"]["uid"]
    await here.until(name, lambda pod: pod["metadata"]["uid"] != uid and pod["status"]["phase"] == "Running", within=30)
