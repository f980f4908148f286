"""Priority classes: set on pods where the cluster has them, and otherwise told about."""

from __future__ import annotations

import asyncio
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
from pliant.frontends.frontend import Frontend
from pliant.kube.client import KubeClient
from pliant.kube.codec import encode
from pliant.kube.resources import CRDS, EVENTS, PODS, PRIORITY_CLASSES
from pliant.kube.transport.base import Reply, Request
from tests.controllers.elastic import staged
from tests.frontends import kubeflow, paddle_batch, raw
from tests.virtual_time import VirtualClock, on_virtual_time, passing

Raw = dict[str, Any]
SHORT = timedelta(seconds=5)
POD = {"spec": {"containers": [{"name": "main", "image": "train", "command": ["true"]}]}}
CASES = {
    "AITrainingJob": (
        "elasticdeeplearning.ai",
        raw.raw_job({"worker": {"replicas": 2, "template": POD}}, priority="high"),
        "spec.priority",
    ),
    "PyTorchJob": (
        "kubeflow.org",
        kubeflow.raw_of("PyTorchJob", {"Worker": 1}, runPolicy={"schedulingPolicy": {"priorityClass": "high"}}),
        "spec.runPolicy.schedulingPolicy.priorityClass",
    ),
    "PaddleJob": (
        "batch.paddlepaddle.org",
        paddle_batch.raw_pdj(worker=paddle_batch.role(1), schedulingPolicy={"priorityClass": "high"}),
        "spec.schedulingPolicy.priorityClass",
    ),
}


class Listened(InProcessTransport):
    """A transport that notes what is asked about priority classes, and may refuse it."""

    def __init__(self, api: ApiServer, *, refuses: bool = False) -> None:
        super().__init__(api)
        self._refuses = refuses
        self.asked: list[str] = []

    async def send(self, request: Request) -> Reply:
        if "priorityclasses" not in request.path:
            return await super().send(request)
        self.asked.append(request.path.rpartition("/")[2])
        if self._refuses:
            return Reply(status=403, body=encode({"kind": "Status", "reason": "Forbidden", "message": "not for you"}))
        return await super().send(request)


class Cluster:
    def __init__(self, client: KubeClient, frontend: Frontend, listened: Listened) -> None:
        self.client, self.frontend, self.asked = client, frontend, listened.asked

    async def submit(self, body: Raw, name: str) -> None:
        body = {**body, "metadata": {"name": name}}
        await self.client.create(resource_of(self.frontend), "default", body)
        await passing(SHORT)

    async def make_class(self, name: str) -> None:
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 7}
        await self.client.create(PRIORITY_CLASSES, None, body)

    async def classes(self, name: str) -> set[tuple[str, str]]:
        """The labels and the classes of the pods of a job."""
        pods = (await self.client.list(PODS, "default")).items
        mine = [pod for pod in pods if pod["metadata"]["name"].startswith(name)]
        return {
            (pod["metadata"]["labels"].get("priority", ""), pod["spec"].get("priorityClassName", "")) for pod in mine
        }

    async def told(self, name: str) -> list[str]:
        events = (await self.client.list(EVENTS, "default")).items
        about = [event for event in events if event["involvedObject"]["name"] == name]
        return [event["message"] for event in about if event["reason"] == "SpecWarning"]


@asynccontextmanager
async def a_cluster(group: str, kind: str, *, refuses: bool = False) -> AsyncIterator[Cluster]:
    clock, frontend = VirtualClock(), FRONTENDS[group, kind]
    server = ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0))
    async with server as api:
        client = KubeClient(InProcessTransport(api))
        await client.create(CRDS, None, frontend.crd())
        listened = Listened(api, refuses=refuses)
        operator = Operator(KubeClient(listened), clock, frontends=[frontend])
        task = asyncio.create_task(operator.run())
        await operator.wait_ready()
        try:
            yield Cluster(client, frontend, listened)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@on_virtual_time
@pytest.mark.parametrize("kind", CASES)
async def test_a_class_is_set_if_there_is_one_and_otherwise_the_job_runs_without(kind: str) -> None:
    group, body, field = CASES[kind]
    async with a_cluster(group, kind) as cluster:
        await cluster.submit(body, "early")
        assert await cluster.classes("early") == {("high", "")}
        fix = "create it, for example: kubectl create priorityclass high --value=1000"
        said = f"{field}: PriorityClass high not found, so pods are created without it; {fix}"
        assert await cluster.told("early") == [said]
        await cluster.make_class("high")
        await cluster.submit(body, "late")
        assert await cluster.classes("late") == {("high", "high")}
        assert await cluster.told("late") == []


@on_virtual_time
async def test_members_of_an_elasticjob_have_their_own_classes() -> None:
    async with staged() as stage:
        worker = {"priority": "low", "template": POD}
        await stage.submit(replicaSpecs={"worker": worker})
        await stage.plan("demo-scaleplan-0", replicaResourceSpecs={"worker": {"replicas": 1}})
        await passing(SHORT)
        assert "priorityClassName" not in (await stage.pods())["demo-edljob-worker-0"]["spec"]
        [event] = [each for each in await stage.events("demo") if each["reason"] == "SpecWarning"]
        assert event["message"].startswith("spec.replicaSpecs.worker.priority: PriorityClass low not found")
        low = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": -1}
        await stage.client.create(PRIORITY_CLASSES, None, low)
        await stage.plan("demo-scaleplan-1", replicaResourceSpecs={"worker": {"replicas": 2}})
        await passing(SHORT)
        assert (await stage.pods())["demo-edljob-worker-1"]["spec"]["priorityClassName"] == "low"


@on_virtual_time
async def test_a_class_that_is_made_with_its_job_counts_although_the_watch_is_behind() -> None:
    group, body, _ = CASES["AITrainingJob"]
    async with a_cluster(group, "AITrainingJob") as cluster:
        await cluster.submit(body, "first")
        await cluster.make_class("other")
        await cluster.submit({**body, "spec": {**body["spec"], "priority": "other"}}, "second")
        assert await cluster.classes("second") == {("other", "other")}


@on_virtual_time
async def test_nothing_is_asked_until_a_job_names_a_class_and_then_once() -> None:
    group, body, _ = CASES["AITrainingJob"]
    async with a_cluster(group, "AITrainingJob") as cluster:
        plain = {**body, "spec": {key: value for key, value in body["spec"].items() if key != "priority"}}
        await cluster.submit(plain, "plain")
        await cluster.submit({**body, "spec": {**body["spec"], "priority": "system-node-critical"}}, "system")
        assert cluster.asked == []
        await cluster.submit(body, "first")
        assert cluster.asked == ["priorityclasses", "priorityclasses", "high"]
        await cluster.client.patch(resource_of(cluster.frontend), "default", "first", {"spec": {"timeLimit": 600}})
        await passing(SHORT)
        assert len(cluster.asked) == 3


@on_virtual_time
async def test_an_operator_that_may_not_list_classes_leaves_them_to_the_cluster() -> None:
    group, body, _ = CASES["AITrainingJob"]
    async with a_cluster(group, "AITrainingJob", refuses=True) as cluster:
        await cluster.make_class("high")
        await cluster.submit(body, "t")
        assert await cluster.classes("t") == {("high", "high")}
        assert await cluster.told("t") == []
