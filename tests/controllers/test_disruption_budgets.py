"""The PodDisruptionBudget of a job, and others of its name."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, EVENTS, POD_DISRUPTION_BUDGETS, PODS
from pliant.kube.transport.base import Reply, Request
from tests.builders import KEY_SECRET
from tests.controllers.operated import operated, operating
from tests.faults.rig import DEFINITION, JOBS
from tests.virtual_time import VirtualClock, on_virtual_time, passing

OTHERS: dict[str, Any] = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "demo"},
    "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}


async def submit(client: KubeClient) -> dict[str, Any]:
    container = {"name": "main", "image": "train"}
    spec = {
        "elastic": {"disruptionBudget": True},
        "replicaSpecs": {"w": {"replicas": 2, "template": {"spec": {"containers": [container]}}}},
    }
    meta = {"name": "demo", "namespace": "default"}
    manifest = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": meta, "spec": spec}
    job: dict[str, Any] = await client.create(JOBS, "default", manifest)
    await passing(timedelta(seconds=5))
    return job


async def pods(client: KubeClient) -> int:
    return len((await client.list(PODS, "default")).items)


@on_virtual_time
async def test_a_budget_of_somebody_else_is_told_and_left_alone_and_the_job_runs() -> None:
    async with operated(AITrainingJobFrontend()) as client:
        intruder = await client.create(POD_DISRUPTION_BUDGETS, "default", OTHERS)
        await submit(client)
        assert await pods(client) == 2
        assert (await client.get(POD_DISRUPTION_BUDGETS, "default", "demo"))["spec"] == intruder["spec"]
        events = (await client.list(EVENTS, "default")).items
        assert [each["reason"] for each in events if each["type"] == "Warning"] == ["NameConflict"]


@on_virtual_time
async def test_a_job_waits_until_the_budget_of_an_earlier_one_is_gone() -> None:
    async with operated(AITrainingJobFrontend()) as client:
        owner = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "name": "demo",
            "uid": "earlier",
            "controller": True,
        }
        old = await client.create(
            POD_DISRUPTION_BUDGETS, "default", {**OTHERS, "metadata": {"name": "demo", "ownerReferences": [owner]}}
        )
        job = await submit(client)
        budget = await client.get(POD_DISRUPTION_BUDGETS, "default", "demo")
        if budget["metadata"]["uid"] == old["metadata"]["uid"]:  # nobody collects garbage here
            assert await pods(client) == 0
            await client.delete(POD_DISRUPTION_BUDGETS, "default", "demo")
            await passing(timedelta(minutes=1))
        assert await pods(client) == 2
        budget = await client.get(POD_DISRUPTION_BUDGETS, "default", "demo")
        assert budget["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


class WithoutBudgets(InProcessTransport):
    """The transport of an operator that may not create budgets."""

    async def send(self, request: Request) -> Reply:
        if request.method == "POST" and request.path.endswith("/poddisruptionbudgets"):
            return Reply(status=403, body=b'{"kind":"Status","message":"may not create budgets"}')
        return await super().send(request)


@on_virtual_time
async def test_a_job_runs_without_its_budget_if_the_operator_may_not_create_it() -> None:
    store, clock = Store.in_memory(), VirtualClock()
    async with ApiServer.start(store, KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)) as api:
        client = KubeClient(InProcessTransport(api))
        await client.create(CRDS, None, DEFINITION)
        async with operating(Operator(KubeClient(WithoutBudgets(api)), clock, key_secret=KEY_SECRET)):
            await submit(client)
            assert await pods(client) == 2
            warnings = [each for each in (await client.list(EVENTS, "default")).items if each["type"] == "Warning"]
            assert [each["reason"] for each in warnings] == ["FailedCreate"]
            assert "demo" in warnings[0]["message"]
            assert "may not create budgets" in warnings[0]["message"]
