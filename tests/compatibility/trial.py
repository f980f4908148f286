"""Runs samples on an embedded cluster, each in a namespace of its own, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass

from pliant.errors import BadRequest, Invalid, NotFound
from pliant.frontends import FRONTENDS, Frontend
from pliant.kube.client import KubeClient
from pliant.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PODS, Resource
from pliant.model.state import FINAL_PHASES, JobPhase
from tests.compatibility.samples import Object, Sample

AT_ONCE = 4
PATIENCE = 120.0
"""Seconds after which a job is taken never to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What became of a sample."""

    sample: Sample
    phase: str
    """In the words of the job's own kind."""
    story: str = ""
    """What its pods wrote, unless it succeeded."""


async def try_all(client: KubeClient, samples: Iterable[Sample], prefix: str) -> list[Ended]:
    """Run all samples to their end, in namespaces with this prefix."""
    seats = asyncio.Semaphore(AT_ONCE)

    async def seated(number: int, sample: Sample) -> Ended:
        async with seats, _namespace(client, f"{prefix}-{number}") as namespace:
            return await _try(client, namespace, sample)

    return await asyncio.gather(*(seated(number, sample) for number, sample in enumerate(samples)))


@asynccontextmanager
async def _namespace(client: KubeClient, name: str) -> AsyncIterator[str]:
    await client.create(NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, None, name)


async def _try(client: KubeClient, namespace: str, sample: Sample) -> Ended:
    frontend = _frontend(sample.manifest)
    version = str(sample.manifest["apiVersion"]).partition("/")[2]
    jobs = Resource(frontend.group, version, frontend.plural, frontend.kind)
    for claim in sample.claims:
        await client.create(PERSISTENT_VOLUME_CLAIMS, namespace, _claim(claim))
    try:
        await client.create(jobs, namespace, sample.manifest)
    except Invalid as problem:
        return Ended(sample=sample, phase="rejected", story=str(problem))
    phase = "never ended"
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            if sample.plans:
                await _carry_out_plans(client, namespace, sample, frontend, jobs)
            status = await _status_in(client, jobs, namespace, frontend, FINAL_PHASES)
            phase = _own_phase(status)
    has_succeeded = phase.lower() in ("succeeded", "completed")
    return Ended(sample=sample, phase=phase, story="" if has_succeeded else await _story(client, jobs, namespace))


async def _carry_out_plans(
    client: KubeClient, namespace: str, sample: Sample, frontend: Frontend, jobs: Resource
) -> None:
    """Scale a running job by its plans, which must succeed."""
    await _status_in(client, jobs, namespace, frontend, {JobPhase.RUNNING})
    assert frontend.plan_frontend is not None
    kind = frontend.plan_frontend
    plans = Resource(kind.group, kind.version, kind.plural, kind.kind)
    for plan in sample.plans:
        created = await client.create(plans, namespace, plan)
        name = created["metadata"]["name"]
        async with aclosing(client.watch(plans, namespace, resource_version="0")) as changes:
            async for change in changes:
                found = change.object or {}
                status = found.get("status") or {}
                if found["metadata"]["name"] == name and status.get("phase") in ("Succeeded", "Failed"):
                    assert status["phase"] == "Succeeded", status
                    break


def _frontend(manifest: Object) -> Frontend:
    return FRONTENDS[str(manifest["apiVersion"]).partition("/")[0], manifest["kind"]]


def _claim(name: str) -> Object:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": PERSISTENT_VOLUME_CLAIMS.kind, "metadata": {"name": name}, "spec": spec}


async def _status_in(
    client: KubeClient, jobs: Resource, namespace: str, frontend: Frontend, phases: Collection[JobPhase]
) -> Object:
    """Wait until a job is in one of these phases, or is rejected."""
    async with aclosing(client.watch(jobs, namespace, resource_version="0")) as changes:
        async for change in changes:
            job = change.object or {}
            state = frontend.load_state(job)
            status: Object = job.get("status") or {}
            if frontend.has_validation_error(status) or (state is not None and state.phase in phases):
                return status
    raise AssertionError("the watch ended before the job")


def _own_phase(status: Object) -> str:
    conditions = status.get("conditions") or [{}]
    return str(status.get("phase") or conditions[-1].get("type"))


async def _story(client: KubeClient, jobs: Resource, namespace: str) -> str:
    """All that may tell why a job did not succeed."""
    parts = [f"{job.get('status')}" for job in (await client.list(jobs, namespace)).items]
    for pod in (await client.list(PODS, namespace)).items:
        name = pod["metadata"]["name"]
        with suppress(NotFound, BadRequest):
            log = b"".join([chunk async for chunk in client.stream_logs(namespace, name)]).decode()
            parts.append(f"{name}: {pod['status'].get('phase')}\n{log}")
    return "\n".join(parts)
