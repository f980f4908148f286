"""An operator that works in some namespaces and looks into no other."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from pliant.controllers.operator import Operator
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.cache.informer import Informer
from pliant.kube.cache.multi_namespace import MultiNamespaceInformer, create_informer
from pliant.kube.objects import Pod
from pliant.kube.resources import CRDS, NAMESPACES, PODS
from tests.embedded.serving import Served, serving
from tests.faults.rig import JOBS
from tests.faults.scenarios import group
from tests.virtual_time import VirtualClock, on_virtual_time, passing

THREE = ("team-a", "team-b", "team-c")


async def prepare(served: Served) -> None:
    await served.client.create(CRDS, None, AITrainingJobFrontend().crd())
    for name in THREE:
        await served.client.create(
            NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
        body = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": {"name": "demo", "namespace": name},
            "spec": {"replicaSpecs": {"worker": group(2)}},
        }
        await served.client.create(JOBS, name, body)


async def pods(served: Served) -> dict[str, int]:
    return {name: len((await served.client.list(PODS, name)).items) for name in THREE}


@on_virtual_time
async def test_jobs_of_the_namespaces_named_are_worked_on_and_others_are_not() -> None:
    async with serving() as served:
        await prepare(served)
        operator = Operator(served.client, VirtualClock(), namespaces=("team-a", "team-b"))
        running = asyncio.create_task(operator.run())
        await operator.wait_ready()
        await passing(timedelta(seconds=5))
        assert await pods(served) == {"team-a": 2, "team-b": 2, "team-c": 0}
        known = operator.informers["pods"]
        assert (len(known.store), known.list_count, known.is_synced, known.last_error) == (4, 2, True, None)
        await served.client.delete(PODS, "team-b", "demo-worker-1")
        await passing(timedelta(seconds=5))
        assert await pods(served) == {"team-a": 2, "team-b": 2, "team-c": 0}
        await served.client.delete(JOBS, "team-a", "demo")
        await passing(timedelta(minutes=1))
        assert (await pods(served))["team-a"] == 0
        assert {pod.metadata.namespace for pod in known.store.all()} == {"team-b"}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@on_virtual_time
async def test_one_namespace_or_all_need_one_informer() -> None:
    async with serving() as served:
        several = create_informer(served.client, PODS, Pod, namespaces=("a", "b", "a"))
        assert isinstance(several, MultiNamespaceInformer)
        assert several.store.get("c", "x") is None
        assert not several.is_synced
        for names in ((), ("a",), ("a", "a")):
            assert isinstance(create_informer(served.client, PODS, Pod, namespaces=names), Informer)
