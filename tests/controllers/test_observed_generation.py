"""Conditions after an edit: all of them hold for the current spec, so that `kubectl wait` returns."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pliant.controllers.job import resource_of
from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS, Resource
from tests.controllers.operated import operated
from tests.frontends import kubeflow, raw
from tests.virtual_time import on_virtual_time, passing

AITRAININGJOB, PYTORCHJOB = (
    FRONTENDS["elasticdeeplearning.ai", "AITrainingJob"],
    FRONTENDS["kubeflow.org", "PyTorchJob"],
)
JOBS, PYTORCHJOBS = resource_of(AITRAININGJOB), resource_of(PYTORCHJOB)
SHORT = timedelta(seconds=10)


async def submit(client: KubeClient, resource: Resource, manifest: dict[str, Any]) -> None:
    await client.create(resource, "default", {**manifest, "metadata": {"name": "demo", "namespace": "default"}})
    await passing(SHORT)


async def edit(client: KubeClient, resource: Resource, spec: dict[str, Any]) -> None:
    await client.patch(resource, "default", "demo", {"spec": spec})
    await passing(SHORT)


async def generations(client: KubeClient, resource: Resource) -> tuple[int, set[int]]:
    """The generation of the job, and those of its conditions."""
    job = await client.get(resource, "default", "demo")
    return job["metadata"]["generation"], {each["observedGeneration"] for each in job["status"]["conditions"]}


@on_virtual_time
async def test_conditions_that_are_over_hold_for_the_current_spec() -> None:
    async with operated(AITRAININGJOB) as client:
        await submit(client, JOBS, raw.raw_job())
        for suspend in (True, False):
            await edit(client, JOBS, {"suspend": suspend})
            generation, observed = await generations(client, JOBS)
            assert observed == {generation}


@on_virtual_time
async def test_an_edit_of_a_finished_job_is_acknowledged_once() -> None:
    async with operated(PYTORCHJOB) as client:
        await submit(client, PYTORCHJOBS, kubeflow.raw_of("PyTorchJob", {"Worker": 1}))
        done = {"phase": "Succeeded"}
        await client.patch(PODS, "default", "demo-worker-0", {"status": done}, subresource="status")
        await passing(SHORT)
        await edit(client, PYTORCHJOBS, {"runPolicy": {"ttlSecondsAfterFinished": 9000}})
        generation, observed = await generations(client, PYTORCHJOBS)
        assert (generation, observed) == (2, {2})
        before = await client.get(PYTORCHJOBS, "default", "demo")
        assert before["status"]["conditions"][-1]["type"] == "Succeeded"
        await passing(timedelta(minutes=5))
        assert await client.get(PYTORCHJOBS, "default", "demo") == before
