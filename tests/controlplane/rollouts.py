"""Lives of Deployments and Jobs, and what is left of them, so that two clusters can be compared."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from pliant.embedded.controllers.workloads.views import DEPLOYMENTS, JOBS, REPLICA_SETS
from pliant.kube.client import KubeClient
from pliant.kube.resources import EVENTS, NAMESPACES, PODS, Resource
from tests.workloads.stage import StandInKubelet, container_spec, container_status, replicated

Object = dict[str, Any]
SPACE = "lives"
_CHOSEN = frozenset(
    {"lastUpdateTime", "lastTransitionTime", "lastProbeTime", "startTime", "completionTime", "observedGeneration"}
)
"""Fields of a status that depend on the time."""
_HASH = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}(-[bcdfghjklmnpqrstvwxz2456789]{5})?\b|-[a-z0-9]{5}\b")
_PATIENCE = 30.0
_INDEX = "batch.kubernetes.io/job-completion-index"


class Lives:
    """Objects of one cluster whose pods start at once, and end when a test says so."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client

    async def create(self, resource: Resource, name: str, **spec: Any) -> None:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}
        await self.client.create(resource, SPACE, body)

    async def patch(self, resource: Resource, name: str, spec: Object) -> None:
        await self.client.patch(resource, SPACE, name, {"spec": spec})

    async def until(self, resource: Resource, name: str, holds: Callable[[Object], bool]) -> Object:
        """Return the status when it is as wanted and describes the present spec."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                obj = await self.client.get(resource, SPACE, name)
                status, generation = obj.get("status") or {}, obj["metadata"]["generation"]
                if status.get("observedGeneration", generation) == generation and holds(status):
                    return dict(status)
                await asyncio.sleep(0.05)

    async def until_rolled_out(self, name: str, replicas: int) -> None:
        counts = ("replicas", "updatedReplicas", "availableReplicas")
        await self.until(DEPLOYMENTS, name, lambda status: all(status.get(x, 0) == replicas for x in counts))

    async def until_ready(self, job: str, pods: int) -> list[str]:
        """Return the names of the running pods of a job, in the order of their indexes."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                await self.until(JOBS, job, lambda status: (status.get("active"), status.get("ready")) == (pods, pods))
                listed = (await self.client.list(PODS, SPACE, labels=f"job-name={job}")).items
                running = [each for each in listed if _is_running(each)]
                if len(running) == pods:
                    return [each["metadata"]["name"] for each in sorted(running, key=_index)]
                await asyncio.sleep(0.05)

    async def finish(self, name: str, exit_code: int = 0) -> None:
        """Let a pod end as its kubelet would report it."""
        ended = {"exitCode": exit_code, "finishedAt": "2020-01-01T00:00:00Z", "startedAt": "2020-01-01T00:00:00Z"}
        statuses = [container_status("main", {"terminated": ended})]
        status = {"phase": "Failed" if exit_code else "Succeeded", "conditions": [], "containerStatuses": statuses}
        await self.client.patch(PODS, SPACE, name, {"status": status}, subresource="status")

    async def until_finished(self, job: str) -> None:
        def is_finished(status: Object) -> bool:
            conditions = status.get("conditions") or ()
            return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)

        await self.until(JOBS, job, is_finished)


def _is_running(pod: Object) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _index(pod: Object) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(_INDEX, ""))


Life = Callable[[Lives], Awaitable[None]]


async def roll_out_and_back(lives: Lives) -> None:
    """Roll out a Deployment, change its template, scale it, and take the change back."""
    first = replicated("rolling")
    await lives.create(DEPLOYMENTS, "rolling", replicas=3, **first)
    await lives.until_rolled_out("rolling", 3)
    await lives.patch(DEPLOYMENTS, "rolling", {"template": {"metadata": {"annotations": {"change": "1"}}}})
    await lives.until_rolled_out("rolling", 3)
    await lives.patch(DEPLOYMENTS, "rolling", {"replicas": 2})
    await lives.until_rolled_out("rolling", 2)
    await lives.patch(DEPLOYMENTS, "rolling", {"template": {"metadata": {"annotations": {"change": None}}}})
    await lives.until_rolled_out("rolling", 2)


async def recreate_after_a_pause(lives: Lives) -> None:
    """Change and scale a paused Deployment, then resume it."""
    spec = replicated("recreated")
    await lives.create(DEPLOYMENTS, "recreated", replicas=1, strategy={"type": "Recreate"}, **spec)
    await lives.until_rolled_out("recreated", 1)
    await lives.patch(DEPLOYMENTS, "recreated", {"paused": True})
    await lives.patch(DEPLOYMENTS, "recreated", {"template": {"metadata": {"annotations": {"change": "1"}}}})
    await lives.patch(DEPLOYMENTS, "recreated", {"replicas": 2})
    await lives.until(DEPLOYMENTS, "recreated", lambda status: status.get("availableReplicas") == 2)
    await lives.patch(DEPLOYMENTS, "recreated", {"paused": None})
    await lives.until_rolled_out("recreated", 2)


async def complete(lives: Lives) -> None:
    """Complete a job of two pods, one after the other."""
    await lives.create(JOBS, "plain", completions=2, template=_template())
    for _ in range(2):
        [name] = await lives.until_ready("plain", 1)
        await lives.finish(name)
    await lives.until_finished("plain")


async def exceed_the_limit(lives: Lives) -> None:
    """Let the second failure end a job, and its other pod."""
    await lives.create(JOBS, "failing", completions=2, parallelism=2, backoffLimit=0, template=_template())
    first, _ = await lives.until_ready("failing", 2)
    await lives.finish(first, 1)
    await lives.until_finished("failing")


async def replace_an_index(lives: Lives) -> None:
    """Complete an indexed job, of which one pod fails once."""
    spec = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
    await lives.create(JOBS, "indexed", template=_template(), **spec)
    names = await lives.until_ready("indexed", 3)
    await lives.finish(names[0])
    await lives.finish(names[2])
    await lives.finish(names[1], 1)
    [name] = await lives.until_ready("indexed", 1)
    await lives.finish(name)
    await lives.until_finished("indexed")


async def fail_one_index(lives: Lives) -> None:
    """Let one index fail for good, and the other one succeed."""
    spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 0}
    await lives.create(JOBS, "per-index", template=_template(), **spec)
    names = await lives.until_ready("per-index", 2)
    await lives.finish(names[0], 1)
    await lives.finish(names[1])
    await lives.until_finished("per-index")


async def succeed_early(lives: Lives) -> None:
    """Let the first index decide for all."""
    spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    policy = {"rules": [{"succeededIndexes": "0"}]}
    await lives.create(JOBS, "early", template=_template(), successPolicy=policy, **spec)
    names = await lives.until_ready("early", 2)
    await lives.finish(names[0])
    await lives.until_finished("early")


async def fail_by_a_rule(lives: Lives) -> None:
    """Let an exit code end a job."""
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    await lives.create(JOBS, "by-rule", template=_template(), podFailurePolicy={"rules": [rule]})
    [name] = await lives.until_ready("by-rule", 1)
    await lives.finish(name, 42)
    await lives.until_finished("by-rule")


async def suspend_and_resume(lives: Lives) -> None:
    """Suspend a running job, resume it, and complete it."""
    await lives.create(JOBS, "suspended", template=_template())
    await lives.until_ready("suspended", 1)
    await lives.patch(JOBS, "suspended", {"suspend": True})
    await lives.until(JOBS, "suspended", lambda status: not status.get("active") and not status.get("terminating"))
    await lives.patch(JOBS, "suspended", {"suspend": False})
    [name] = await lives.until_ready("suspended", 1)
    await lives.finish(name)
    await lives.until_finished("suspended")


LIVES: tuple[Life, ...] = (
    *(roll_out_and_back, recreate_after_a_pause, complete, exceed_the_limit, replace_an_index, fail_one_index),
    *(succeed_early, fail_by_a_rule, suspend_and_resume),
)


def _template() -> Object:
    return {"spec": {**container_spec(), "restartPolicy": "Never"}}


async def live(client: KubeClient) -> Object:
    """Live all lives at once, and return what is left: statuses, sizes by revision, pods and reasons of events."""
    await client.create(NAMESPACES, None, {"metadata": {"name": SPACE}})
    lives, kubelet = Lives(client), StandInKubelet(client, lambda pod: False)
    running = asyncio.create_task(kubelet.run())
    try:
        await asyncio.gather(*(life(lives) for life in LIVES))
        await asyncio.sleep(1)  # for events, which may be written after the status
        return await _describe(client)
    finally:
        running.cancel()


async def _describe(client: KubeClient) -> Object:
    found: Object = {}
    for resource in (DEPLOYMENTS, JOBS):
        for obj in (await client.list(resource, SPACE)).items:
            found[obj["metadata"]["name"]] = _without_choices(obj["status"])
    for obj in (await client.list(REPLICA_SETS, SPACE)).items:
        annotations = obj["metadata"]["annotations"]
        revision = annotations["deployment.kubernetes.io/revision"]
        owner = obj["metadata"]["ownerReferences"][0]["name"]
        found[f"{owner} {revision}"] = [obj["spec"]["replicas"], annotations, _without_choices(obj["status"])]
    events = (await client.list(EVENTS, SPACE)).items
    found["events"] = sorted({_describe_event(each) for each in events if each["involvedObject"]["kind"] != "Pod"})
    pods = (await client.list(PODS, SPACE)).items
    found["pods"] = sorted(_describe_pod(each) for each in pods)
    return found


def _describe_event(event: Object) -> tuple[str, str, str, str]:
    involved = event["involvedObject"]
    return involved["kind"], _HASH.sub("", involved["name"]), event["type"], event["reason"]


def _describe_pod(pod: Object) -> tuple[str, str, str, str]:
    meta = pod["metadata"]
    owner, finalizers = meta["ownerReferences"][0]["kind"], ",".join(meta.get("finalizers") or ())
    return owner, _HASH.sub("", meta["name"]), f"{pod['status'].get('phase')} {_index(pod)}", finalizers


def _without_choices(value: Any) -> Any:
    """Return a status without times, hashes and generations, with its conditions in the order of their types."""
    if isinstance(value, dict):
        kept = {name: _without_choices(each) for name, each in value.items() if name not in _CHOSEN}
        if isinstance(kept.get("conditions"), list):
            kept["conditions"].sort(key=lambda each: str(each["type"]))
        return kept
    if isinstance(value, list):
        return [_without_choices(each) for each in value]
    return _HASH.sub("", value) if isinstance(value, str) else value
