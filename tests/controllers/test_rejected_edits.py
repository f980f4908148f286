"""An edit that cannot be taken on: the job goes on with the last spec that was accepted, and says so."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from pliant.controllers.job import resource_of
from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frontends import FRONTENDS
from pliant.frontends.frontend import Frontend
from pliant.frontends.status.rejection import find_rejection
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS, CRDS, EVENTS, PODS
from pliant.runtime.clock import Clock
from tests.builders import KEY_SECRET
from tests.edits.stage import without_rules
from tests.frontends import elasticjob, kubeflow, paddle, paddle_batch, raw
from tests.virtual_time import VirtualClock, on_virtual_time, passing

Raw = dict[str, Any]
SHORT = timedelta(seconds=10)


class Case(NamedTuple):
    """A job of a kind, and an edit of it that is refused."""

    group: str
    raw: Raw
    edit: Raw
    field: str

    @property
    def frontend(self) -> Frontend:
        return FRONTENDS[self.group, self.raw["kind"]]


def template(image: str) -> Raw:
    return {"spec": {"containers": [{"name": "main", "image": image, "command": ["true"]}]}}


def roles(count: int, image: str = "train") -> list[Raw]:
    return [{"replicaType": "worker", "replicas": count, "template": template(image)}]


CASES = {
    "AITrainingJob, template": Case(
        "elasticdeeplearning.ai",
        raw.raw_job({"worker": {"replicas": 2, "template": template("train")}}),
        {"replicaSpecs": {"worker": {"replicas": 2, "template": template("other")}}},
        "spec.replicaSpecs.worker.template",
    ),
    "AITrainingJob, bounds": Case(
        "elasticdeeplearning.ai",
        raw.raw_job({"worker": {"replicas": 2, "template": template("train")}}),
        {"replicaSpecs": {"worker": {"minReplicas": 5, "maxReplicas": 1}}},
        "spec.replicaSpecs.worker.minReplicas",
    ),
    "AITrainingJob, group": Case(
        "elasticdeeplearning.ai",
        raw.raw_job({"worker": {"replicas": 2, "template": template("train")}}),
        {"replicaSpecs": {"ps": {"replicas": 1, "template": template("train")}}},
        "spec.replicaSpecs.ps",
    ),
    "PyTorchJob, template": Case(
        "kubeflow.org",
        kubeflow.raw_of("PyTorchJob", {"Worker": 2}),
        {"pytorchReplicaSpecs": {"Worker": {"template": template("other")}}},
        "spec.pytorchReplicaSpecs.Worker.template",
    ),
    "PaddleJob, entrypoint": Case(
        "paddlepaddle.org", paddle.raw_job(), {"trainer": {"entrypoint": "python other.py"}}, "spec.trainer"
    ),
    "batch PaddleJob, template": Case(
        "batch.paddlepaddle.org",
        paddle_batch.raw_pdj(worker=paddle_batch.role(2)),
        {"worker": {"template": template("other")}},
        "spec.worker.template",
    ),
    "TFJob, managedBy": Case(
        "kubeflow.org",
        kubeflow.raw_of("TFJob", {"Worker": 2}),
        {"runPolicy": {"managedBy": "example.com/other"}},
        "spec.runPolicy.managedBy",
    ),
    "ElasticJob, bounds": Case(
        "elastic.iml.github.io",
        elasticjob.raw_ej(),
        {"replicaSpecs": {"worker": {"minReplicas": 5, "maxReplicas": 1}}},
        "spec.replicaSpecs.worker.minReplicas",
    ),
}


class Stage:
    """A job, an operator that looks after it, and no nodes."""

    def __init__(self, client: KubeClient, clock: Clock, case: Case) -> None:
        self.client, self.clock, self.case = client, clock, case
        self.jobs = resource_of(case.frontend)
        self.name = case.raw["metadata"]["name"]
        self._running: asyncio.Task[None] | None = None

    async def start_operator(self) -> None:
        self._running = asyncio.create_task(Operator(self.client, self.clock, key_secret=KEY_SECRET).run())
        await passing(SHORT)

    async def stop_operator(self) -> None:
        assert self._running is not None
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running

    async def edit(self, spec: Raw, **metadata: Any) -> None:
        await self.client.patch(self.jobs, "default", self.name, {"spec": spec, "metadata": metadata})
        await passing(SHORT)

    async def status(self) -> Raw:
        status: Raw = (await self.client.get(self.jobs, "default", self.name))["status"]
        return status

    async def rejection(self) -> dict[str, Any]:
        return dict(find_rejection(await self.status(), self.case.frontend.conditions_path))

    async def pods(self) -> dict[str, str]:
        """The uids of the pods by name."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in (await self.client.list(PODS, "default")).items
        }

    async def is_looked_after(self) -> bool:
        """Delete a pod, and tell whether another one of its name comes."""
        before = await self.pods()
        name = next(iter(before))
        await self.client.delete(PODS, "default", name)
        await passing(SHORT)
        after = await self.pods()
        return after.keys() == before.keys() and after[name] != before[name]

    async def event_reasons(self) -> list[str]:
        return [event["reason"] for event in (await self.client.list(EVENTS, "default")).items]


@asynccontextmanager
async def staged(case: Case) -> AsyncIterator[Stage]:
    clock = VirtualClock()
    async with ApiServer.start(
        Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)
    ) as api:
        client = KubeClient(InProcessTransport(api))
        await client.create(CRDS, None, without_rules(case.frontend.crd()))
        if case.frontend.plan_frontend is not None:
            await client.create(CRDS, None, case.frontend.plan_frontend.crd())
        stage = Stage(client, clock, case)
        metadata = {"name": stage.name, "namespace": "default"}
        await client.create(stage.jobs, "default", {**case.raw, "metadata": metadata})
        await stage.start_operator()
        try:
            yield stage
        finally:
            await stage.stop_operator()


EACH: Callable[..., Any] = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
FIRST = CASES["AITrainingJob, template"]


@EACH
@on_virtual_time
async def test_a_job_is_looked_after_though_an_edit_is_refused(case: Case) -> None:
    async with staged(case) as stage:
        before = await stage.status()
        await stage.edit(case.edit)
        refused = await stage.rejection()
        assert (refused["status"], refused["reason"], refused["observedGeneration"]) == ("True", "InvalidSpec", 2)
        assert refused["message"].startswith(case.field)
        assert (await stage.status()).get("phase") == before.get("phase")
        assert "SpecRejected" in await stage.event_reasons()
        assert await stage.is_looked_after()


@EACH
@on_virtual_time
async def test_the_next_operator_goes_on_with_it_too(case: Case) -> None:
    async with staged(case) as stage:
        await stage.edit(case.edit)
        await stage.stop_operator()
        await stage.start_operator()
        assert await stage.is_looked_after()
        assert (await stage.rejection())["status"] == "True"


@EACH
@on_virtual_time
async def test_undoing_the_edit_clears_the_condition(case: Case) -> None:
    async with staged(case) as stage:
        await stage.edit(case.edit)
        current = await stage.client.get(stage.jobs, "default", stage.name)
        await stage.client.replace(stage.jobs, "default", stage.name, {**current, "spec": case.raw["spec"]})
        await passing(SHORT)
        assert await stage.rejection() == {}
        assert await stage.is_looked_after()


@EACH
@on_virtual_time
async def test_the_condition_is_never_the_last_one(case: Case) -> None:
    async with staged(case) as stage:
        await stage.edit(case.edit)
        await stage.is_looked_after()
        inner: Any = await stage.status()
        for step in case.frontend.conditions_path:
            inner = inner[step]
        types = [entry["type"] for entry in inner]
        assert types.count("SpecRejected") == 1
        assert types[-1] != "SpecRejected" or types == ["SpecRejected"]


@on_virtual_time
async def test_it_is_written_once() -> None:
    async with staged(FIRST) as stage:
        await stage.edit(FIRST.edit)
        version = (await stage.client.get(stage.jobs, "default", stage.name))["metadata"]["resourceVersion"]
        await passing(timedelta(minutes=10))
        assert (await stage.client.get(stage.jobs, "default", stage.name))["metadata"]["resourceVersion"] == version


@on_virtual_time
async def test_suspending_works_though_another_field_is_refused() -> None:
    case = CASES["AITrainingJob, bounds"]
    async with staged(case) as stage:
        await stage.edit(case.edit)
        await stage.edit({"suspend": True})
        assert await stage.pods() == {}
        assert (await stage.status())["phase"] == "Suspended"
        await stage.edit({"suspend": False})
        assert len(await stage.pods()) == 2
        assert (await stage.rejection())["observedGeneration"] == 4


@on_virtual_time
async def test_an_order_to_end_is_obeyed_though_the_spec_is_refused() -> None:
    async with staged(FIRST) as stage:
        await stage.edit(FIRST.edit)
        await stage.edit({}, annotations={"preempted": "by hand"})
        assert (await stage.status())["phase"] == "Preempted"
        assert await stage.pods() == {}


@on_virtual_time
async def test_a_refused_annotation_leaves_the_one_before_in_force() -> None:
    async with staged(FIRST) as stage:
        await stage.edit({}, annotations={"pliant/autoscale": "banana"})
        assert (await stage.rejection())["message"].startswith("metadata.annotations.pliant/autoscale")
        assert await stage.is_looked_after()
        await stage.edit({}, annotations={"pliant/autoscale": None})
        assert await stage.rejection() == {}


@on_virtual_time
async def test_a_new_spec_is_the_one_to_fall_back_to() -> None:
    async with staged(FIRST) as stage:
        await stage.edit({"replicaSpecs": {"worker": {"replicas": 3}}})
        assert len(await stage.pods()) == 3
        await stage.edit({"replicaSpecs": {"worker": {"replicas": 1, "template": template("other")}}})
        assert len(await stage.pods()) == 3, "of a refused edit nothing is taken on"
        assert await stage.is_looked_after()


def long_case() -> Case:
    template_with_noise = template("train")
    noise = random.Random(8).randbytes(60_000).hex()
    template_with_noise["spec"]["containers"][0]["env"] = [{"name": "LONG", "value": noise}]
    return FIRST._replace(raw=raw.raw_job({"worker": {"replicas": 2, "template": template_with_noise}}))


@on_virtual_time
async def test_a_long_spec_is_kept_beside_the_job() -> None:
    case = long_case()
    async with staged(case) as stage:
        accepted = (await stage.status())["pliant"]["acceptedSpec"]
        assert "data" not in accepted
        kept = await stage.client.get(CONFIG_MAPS, "default", accepted["configMap"])
        assert kept["metadata"]["ownerReferences"][0]["kind"] == "AITrainingJob"
        await stage.edit(case.edit)
        await stage.stop_operator()
        await stage.start_operator()
        assert await stage.is_looked_after()
        assert (await stage.rejection())["status"] == "True"


@on_virtual_time
async def test_a_long_spec_that_cannot_be_kept_is_kept_once_it_can() -> None:
    case = long_case()
    async with staged(case) as stage:
        name = (await stage.status())["pliant"]["acceptedSpec"]["configMap"]
        await stage.stop_operator()
        await stage.client.delete(CONFIG_MAPS, "default", name)
        intruder = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        await stage.client.create(CONFIG_MAPS, "default", intruder)
        status = {"status": {"pliant": {"acceptedSpec": None}}}
        await stage.client.patch(stage.jobs, "default", stage.name, status, subresource="status")
        await stage.start_operator()
        assert "acceptedSpec" not in (await stage.status())["pliant"]
        await stage.client.delete(CONFIG_MAPS, "default", name)
        assert await stage.is_looked_after()
        assert (await stage.status())["pliant"]["acceptedSpec"]["configMap"] == name


@on_virtual_time
async def test_an_annotation_of_somebody_else_costs_no_write() -> None:
    async with staged(FIRST) as stage:
        await stage.edit({}, annotations={"example.com/seen": "1"})
        version = (await stage.client.get(stage.jobs, "default", stage.name))["metadata"]["resourceVersion"]
        await passing(timedelta(minutes=5))
        assert (await stage.client.get(stage.jobs, "default", stage.name))["metadata"]["resourceVersion"] == version
        assert (await stage.status())["pliant"]["acceptedSpec"].get("annotations", {}) == {}
