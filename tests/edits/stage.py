"""A cluster on virtual time with a job, nodes that run no processes, and an operator; the job is edited and watched."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

from pliant.controllers.job import resource_of
from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.errors import InvalidSpec
from pliant.frontends import FRONTENDS
from pliant.frontends.accepted_spec import is_managed_externally, managed_by_rejection
from pliant.frontends.frontend import required_crds
from pliant.frontends.status.rejection import find_rejection
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, PODS, Resource
from pliant.model.labels import ATTEMPT_LABEL, REPLICA_GROUP_LABEL
from pliant.model.state import JobPhase
from tests.builders import KEY_SECRET
from tests.edits.jobs import NAME, KindKey, Raw, job_of
from tests.faults.stand_in_node import FOR_EVER, StandInNodes
from tests.virtual_time import VirtualClock, passing

PATIENCE = timedelta(seconds=10)
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
PRIORITY_CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}
PLANS = Resource("elastic.iml.github.io", "v1alpha1", "scaleplans", "ScalePlan")


class Stage:
    """A job whose pods run."""

    def __init__(self, client: KubeClient, kind: KindKey) -> None:
        self.client, self.kind, self.frontend = client, kind, FRONTENDS[kind]
        self.jobs = resource_of(self.frontend)

    async def job(self) -> Raw:
        return dict(await self.client.get(self.jobs, "default", NAME))

    async def state(self) -> Raw:
        state: Raw = (await self.job())["status"]["pliant"]
        return state

    async def pods(self) -> dict[str, Raw]:
        pods = (await self.client.list(PODS, "default")).items
        return {str(pod["metadata"]["name"]): dict(pod) for pod in pods}

    async def replace(self, edited: Raw) -> None:
        """Store the job as it was edited, and give the operator time."""
        current = await self.job()
        await self.client.replace(self.jobs, "default", NAME, {**edited, "metadata": current["metadata"]})
        await passing(PATIENCE)

    async def request_workers(self, name: str, replicas: int) -> None:
        """Do what the master of an ElasticJob does."""
        uid = (await self.job())["metadata"]["uid"]
        owner = {"apiVersion": self.jobs.api_version, "kind": "ElasticJob", "name": NAME, "uid": uid}
        metadata = {"name": name, "labels": {"scale-type": "auto"}, "ownerReferences": [owner]}
        spec = {"ownerJob": NAME, "replicaResourceSpecs": {"worker": {"replicas": replicas}}}
        plan = {"apiVersion": PLANS.api_version, "kind": "ScalePlan", "metadata": metadata, "spec": spec}
        await self.client.create(PLANS, "default", plan)
        await passing(PATIENCE)

    async def kill(self, name: str) -> None:
        """End the program of a pod by a signal, as the kernel does."""
        ended = {"terminated": {"exitCode": 137, "reason": "Error"}}
        container = (await self.pods())[name]["spec"]["containers"][0]["name"]
        report = {"name": container, "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
        status = {"status": {"phase": "Failed", "containerStatuses": [report]}}
        await self.client.patch(PODS, "default", name, status, subresource="status")
        await passing(PATIENCE)

    async def delete(self, name: str) -> None:
        await self.client.delete(PODS, "default", name)
        await passing(PATIENCE)

    async def rejection(self) -> Raw:
        return dict(find_rejection((await self.job())["status"], self.frontend.conditions_path))

    def conditions(self, raw: Raw) -> list[Raw]:
        """The conditions of a job; the last one is current."""
        found: Any = raw["status"]
        for step in self.frontend.conditions_path:
            found = found.get(step) or {}
        return list(found)

    async def refusal(self) -> InvalidSpec | None:
        """Why the spec as it is stored is not accepted, if it is not."""
        raw = await self.job()
        state = self.frontend.load_state(raw)
        try:
            job = self.frontend.parse(raw, state)
        except InvalidSpec as error:
            return error
        return managed_by_rejection(self.frontend) if is_managed_externally(job) else None


async def check_status(stage: Stage) -> None:
    """The status tells the truth: about the spec, about its generation, and about the pods that run."""
    raw, refusal, told = await stage.job(), await stage.refusal(), await stage.rejection()
    generation, state = raw["metadata"]["generation"], raw["status"]["pliant"]
    assert bool(told) == (refusal is not None), (told, refusal)
    if told:
        assert (told["message"], told["observedGeneration"]) == (str(refusal), generation)
    elif not JobPhase(state["phase"]).is_final:
        assert state["observedGeneration"] == generation
        assert state["acceptedSpec"]["generation"] == generation
        assert [each["observedGeneration"] for each in stage.conditions(raw)[-1:]] in ([], [generation])
    running = Counter(
        pod["metadata"]["labels"][REPLICA_GROUP_LABEL]
        for pod in (await stage.pods()).values()
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    )
    counted = {name.lower(): each.get("active", 0) for name, each in state["replicaCounts"].items()}
    assert {name: size for name, size in counted.items() if size} == dict(running)


async def check_supervision(stage: Stage) -> None:
    """A pod that is deleted and a program that is killed are replaced, or the end of the job accounts for them."""
    for lose in (stage.delete, stage.kill):
        before = await stage.pods()
        phase = JobPhase((await stage.state())["phase"])
        if phase is JobPhase.SUSPENDED or phase.is_final:
            assert phase.is_final or [name for name in before if "master" not in name] == []
            return
        name = sorted(before)[-1]
        await lose(name)
        after, state = await stage.pods(), await stage.state()
        is_replaced = name in after and after[name]["metadata"]["uid"] != before[name]["metadata"]["uid"]
        is_renamed = len(after) == len(before) and after.keys() != before.keys()  # members have new numbers
        assert is_replaced or is_renamed or JobPhase(state["phase"]).is_final, (name, state["phase"], sorted(after))


def without_rules(crd: Any) -> Any:
    """A definition as servers read it that evaluate no rules."""
    if isinstance(crd, dict):
        return {key: without_rules(each) for key, each in crd.items() if key != "x-kubernetes-validations"}
    return [without_rules(each) for each in crd] if isinstance(crd, list) else crd


def without_schema(crd: Raw) -> Raw:
    """A definition that lets anything pass."""
    for version in crd["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": ANYTHING}
    return crd


@asynccontextmanager
async def running_job(kind: KindKey, *, is_lax: bool = False) -> AsyncIterator[Stage]:
    """A job of a kind whose pods run, on a server with the definition of the kind or with one that checks nothing."""
    clock = VirtualClock()
    async with ApiServer.start(
        Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)
    ) as api:
        client = KubeClient(InProcessTransport(api))
        for crd in required_crds(FRONTENDS[kind]):
            await client.create(CRDS, None, without_schema(crd) if is_lax else without_rules(crd))
        stage = Stage(client, kind)
        await client.create(stage.jobs, "default", job_of(kind))
        await client.create(PRIORITY_CLASSES, None, {**PRIORITY_CLASS, "metadata": {"name": "other"}})
        nodes = StandInNodes(client, lambda group, index, attempt: FOR_EVER)
        await nodes.register()
        operator = Operator(client, clock, frontends=[stage.frontend], key_secret=KEY_SECRET)
        tasks = [asyncio.create_task(each) for each in (nodes.run(), operator.run())]
        await passing(PATIENCE)
        if stage.frontend.plan_frontend is not None:
            await stage.request_workers("first", 2)
        try:
            yield stage
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


def shape_of(pod: Raw) -> Raw:
    """What a pod is made of, without its node and without what counts its restarts."""
    labels = {name: value for name, value in pod["metadata"]["labels"].items() if name != ATTEMPT_LABEL}
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
    containers = [{**each, "env": _uncounted(each.get("env") or [])} for each in spec["containers"]]
    annotations = pod["metadata"].get("annotations") or {}
    return {"labels": labels, "annotations": annotations, "spec": {**spec, "containers": containers}}


def _uncounted(env: list[Raw]) -> list[Raw]:
    return [each for each in env if not each["name"].endswith("_RESTARTCOUNT")]
