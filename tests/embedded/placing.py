"""An API server with the scheduler and the node controllers but without a kubelet, for tests on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.control_plane import BackgroundTask
from pliant.embedded.controllers.pod_gc import PodGarbageCollector
from pliant.embedded.controllers.taints import NodeConditionTaintController, TaintEvictionController
from pliant.embedded.kubelet.pods.event_recorder import PodEventRecorder
from pliant.embedded.object_views import PodView
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.scheduler.pod_groups import POD_GROUP_RESOURCES, pod_group_informer
from pliant.embedded.scheduler.scheduler import DEFAULT_SCHEDULER_NAME, Scheduler
from pliant.embedded.storage.store import Store
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.kube.resources import NODES, PODS
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH
from tests.embedded.serving import pod
from tests.virtual_time import VirtualClock, quiet

GPU = "nvidia.com/gpu"


class Places:
    """Creates nodes and pods, and returns where the scheduler puts them."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client

    async def node(
        self, name: str, *, gpus: int = 0, taints: tuple[str, ...] = (), labels: Mapping[str, str] | None = None
    ) -> None:
        """Create a ready node; taints are in the format of kubectl."""
        spec = {"taints": [taint(each) for each in taints]}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": spec,
        }
        await self.client.create(NODES, None, body)
        has = {"cpu": "4", "memory": "8Gi", "pods": "10", GPU: str(gpus)}
        await self.client.patch(NODES, None, name, {"status": {"allocatable": has}}, subresource="status")
        await self.set_condition(name, "Ready", "True")

    async def set_condition(self, name: str, condition: str, status: str) -> None:
        """Set a condition of a node."""
        patch = {"status": {"conditions": [{"type": condition, "status": status}]}}
        await self.client.patch(NODES, None, name, patch, content_type=STRATEGIC_MERGE_PATCH, subresource="status")
        await quiet()

    async def set_taints(self, name: str, *taints: str) -> None:
        """Replace the taints of a node."""
        spec = {"taints": [taint(each) for each in taints]}
        await self.client.patch(NODES, None, name, {"spec": spec})
        await quiet()

    async def taints(self, name: str) -> set[str]:
        """Return the taints of a node as `key:Effect`."""
        spec = (await self.client.get(NODES, None, name))["spec"]
        return {f"{each['key']}:{each['effect']}" for each in spec.get("taints") or ()}

    async def pod(self, name: str, *, gpus: int = 0, **spec: Any) -> str:
        """Create a pod; return its node, or "" if it has none."""
        body = pod(name)
        body["spec"] |= spec
        if gpus:
            body["spec"]["containers"][0]["resources"] = {"limits": {GPU: str(gpus)}}
        await self.client.create(PODS, "default", body)
        return await self.of(name)

    async def of(self, name: str) -> str:
        """Return the node of a pod after all tasks have run."""
        await quiet()
        return str((await self.client.get(PODS, "default", name))["spec"].get("nodeName") or "")

    async def unschedulable_message(self, name: str) -> str:
        """Return the message of the PodScheduled condition of a pod."""
        (condition,) = (await self.client.get(PODS, "default", name))["status"]["conditions"]
        return str(condition["message"])


def taint(text: str) -> dict[str, str]:
    """Parse `key=value:Effect` or `key:Effect`."""
    name, _, effect = text.partition(":")
    key, _, value = name.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def toleration(key: str, **fields: Any) -> dict[str, Any]:
    """Return a toleration of a taint with any value."""
    effect = {"effect": "NoExecute"} if "tolerationSeconds" in fields else {}
    return {"key": key, "operator": "Exists", **effect, **fields}


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def required_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def preferred_affinity(**weights: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    preferred = [{"weight": weight, "preference": term} for weight, term in weights.values()]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


@asynccontextmanager
async def placing() -> AsyncIterator[Places]:
    """Start an API server with the scheduler and the node controllers."""
    clock = VirtualClock()
    async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), clock) as api:
        client = KubeClient(InProcessTransport(api))
        scheduler = Scheduler(client, clock, PodEventRecorder(client, clock, DEFAULT_SCHEDULER_NAME))
        marks, evictions = NodeConditionTaintController(client, clock), TaintEvictionController(client, clock)
        orphans = PodGarbageCollector(client, clock)

        def pod_changed(old: PodView | None, new: PodView | None) -> None:
            for each in (scheduler, evictions, orphans):
                each.on_pod_change(old, new)

        def node_changed(old: Node | None, new: Node | None) -> None:
            for each in (scheduler, marks, evictions, orphans):
                each.on_node_change(old, new)

        pods = Informer(client, PODS, PodView, on_change=pod_changed)
        nodes = Informer(client, NODES, Node, on_change=node_changed)
        groups = [pod_group_informer(each, client, scheduler.pod_groups) for each in POD_GROUP_RESOURCES]
        running: tuple[BackgroundTask, ...] = (
            scheduler,
            scheduler.pod_groups,
            marks,
            evictions,
            orphans,
            pods,
            nodes,
            *groups,
        )
        workers = [asyncio.create_task(each.run()) for each in running]
        try:
            await quiet()
            yield Places(client)
        finally:
            for each in workers:
                each.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
