"""ElasticJobs on virtual time: an API server, nodes that run nothing, and an operator."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from pliant.controllers.operator import Operator
from pliant.controllers.progress_reports import ProgressReceiver
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.errors import NotFound
from pliant.frontends.elasticjob.job import ElasticJobFrontend
from pliant.frontends.frontend import required_crds
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, EVENTS, PODS, Resource
from pliant.kube.transport.base import Transport
from pliant.model.operator_config import OperatorConfig
from tests.builders import KEY_SECRET
from tests.faults.stand_in_node import FOR_EVER, Script, StandInNodes
from tests.virtual_time import VirtualClock

Object = dict[str, Any]
GROUP, VERSION = ElasticJobFrontend.custom_kind.group, ElasticJobFrontend.custom_kind.version
JOBS = Resource(GROUP, VERSION, ElasticJobFrontend.custom_kind.plural, ElasticJobFrontend.custom_kind.kind)
PLANS = Resource(GROUP, VERSION, "scaleplans", "ScalePlan")
SPACE = "default"
MASTER = "elasticjob-demo-dlrover-master"


class Stage:
    """A cluster with one job, `demo`, and what a test does to it."""

    def __init__(self, client: KubeClient, receiver: ProgressReceiver | None = None) -> None:
        self.client = client
        self.receiver = receiver

    async def submit(self, *, command: list[str] | None = None, name: str = "demo", **spec: Any) -> Object:
        """Create a job of up to two workers; with a command its master is somebody else's."""
        container = {"name": "trainer", **({"image": "theirs", "command": command} if command else {})}
        worker = {"template": {"spec": {"containers": [{"name": "trainer", "image": "train"}]}}}
        replicas = {"dlrover-master": {"template": {"spec": {"containers": [container]}}}, "worker": worker}
        body = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": {"name": name},
            "spec": {"distributionStrategy": "AllreduceStrategy", "replicaSpecs": replicas, **spec},
        }
        return await self.client.create(JOBS, SPACE, body)

    async def plan(
        self, name: str, kind: str = "auto", owner: str = "demo", owners: Sequence[Object] = (), **spec: Any
    ) -> Object:
        """Write a plan."""
        meta = {"name": name, "labels": {"scale-type": kind}, "ownerReferences": list(owners)}
        named = {"ownerJob": owner} if owner else {}
        body = {"apiVersion": PLANS.api_version, "kind": PLANS.kind, "metadata": meta, "spec": {**named, **spec}}
        return await self.client.create(PLANS, SPACE, body)

    async def plans(self) -> dict[str, Object]:
        """Every plan there is, by name."""
        return {each["metadata"]["name"]: each for each in (await self.client.list(PLANS, SPACE)).items}

    async def job(self, name: str = "demo") -> Object:
        """The job's status as it is."""
        return (await self.client.get(JOBS, SPACE, name)).get("status") or {}

    async def pods(self) -> dict[str, Object]:
        """Every pod there is, by name."""
        return {each["metadata"]["name"]: each for each in (await self.client.list(PODS, SPACE)).items}

    async def workers(self) -> list[str]:
        """The workers that are there and not leaving, by id."""
        pods = (await self.pods()).items()
        there = [name for name, pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return sorted(name.removeprefix("demo-edljob-worker-") for name in there if "-worker-" in name)

    async def events(self, name: str) -> list[Object]:
        """What was told about an object of that name."""
        told = (await self.client.list(EVENTS, SPACE)).items
        return [event for event in told if event["involvedObject"]["name"] == name]

    async def is_there(self, resource: Resource, name: str) -> bool:
        """Whether an object is there."""
        try:
            await self.client.get(resource, SPACE, name)
        except NotFound:
            return False
        return True


def workers(size: int) -> dict[str, Any]:
    """What a plan says to have so many workers."""
    return {"replicaResourceSpecs": {"worker": {"replicas": size}}}


def an_owner(name: str, uid: str) -> Object:
    """An owner as masters write it: the kind in lower case."""
    return {"apiVersion": JOBS.api_version, "kind": "elasticjob", "name": name, "uid": uid}


def foreign_pod(job: Mapping[str, Any], index: int, kind: str = "worker") -> Object:
    """A pod as a master makes it by itself: its owner does not control it."""
    meta = job["metadata"]
    about = {"name": meta["name"], "replica-type": kind, "replica-index": index, "rank-index": index}
    labels = {f"elasticjob.dlrover/{key}": str(value) for key, value in {**about, "relaunch-count": 0}.items()}
    owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{meta['name']}-edljob-{kind}-{index}",
            "labels": {"app": "dlrover", **labels},
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        },
        "spec": {"restartPolicy": "Never", "containers": [{"name": "trainer", "image": "train"}]},
    }


def runs_on(name: str, index: int, attempt: int) -> int:
    """Nobody ever ends."""
    return FOR_EVER


@asynccontextmanager
async def staged(
    script: Script = runs_on,
    rules: OperatorConfig | None = None,
    through: Callable[[Transport], Transport] = lambda transport: transport,
    *,
    knows_plans: bool = True,
    key_secret: bytes | None = KEY_SECRET,
) -> AsyncIterator[Stage]:
    """A cluster on virtual time, with nodes and an operator, which may have a transport of its own."""
    clock = VirtualClock()
    async with ApiServer.start(
        Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)
    ) as api:
        client = KubeClient(InProcessTransport(api))
        for crd in required_crds(ElasticJobFrontend())[: None if knows_plans else 1]:
            await client.create(CRDS, None, crd)
        nodes = StandInNodes(client, script)
        await nodes.register()
        own = KubeClient(through(InProcessTransport(api)))
        receiver = ProgressReceiver(own, clock, key_secret, "http://operator:8082") if key_secret else None
        operator = Operator(
            own,
            clock,
            frontends=[ElasticJobFrontend()],
            config=rules or OperatorConfig(),
            key_secret=key_secret,
            progress_receiver=receiver,
        )
        tasks = [asyncio.create_task(each) for each in (nodes.run(), operator.run())]
        await operator.wait_ready()
        try:
            yield Stage(client, receiver)
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
