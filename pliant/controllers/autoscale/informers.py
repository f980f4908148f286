"""The informers that planning needs, started with the first autoscalable job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from pliant.controllers.autoscale.node_usage import ClusterChange, ClusterNodeUsage, owning_job_uid
from pliant.controllers.autoscale.object_views import ClusterPod, ResourceQuota
from pliant.controllers.autoscale.pod_shapes import PodShapeCache, scheduling_properties
from pliant.controllers.autoscale.scalable_jobs import ScalableJobs
from pliant.controllers.autoscale.snapshot import SnapshotBuilder
from pliant.errors import ApiError, Forbidden, NotFound
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.kube.resources import NODES, PODS, RESOURCE_QUOTAS, Resource

LIST_CHECK_RETRY_SECONDS = 1.0  # seconds between two attempts to list a resource

log = logging.getLogger(__name__)


class AutoscaleInformers:
    def __init__(
        self,
        client: KubeClient,
        nodes: Informer[Node],
        scalable_jobs: ScalableJobs,
        on_cluster_change: Callable[[ClusterChange], None],
    ) -> None:
        self.pods: Informer[ClusterPod] = Informer(client, PODS, ClusterPod, on_change=self._on_pod_changed)
        self.quotas: Informer[ResourceQuota] = Informer(
            client, RESOURCE_QUOTAS, ResourceQuota, on_change=self._on_quota_changed
        )
        self._client = client
        self._nodes = nodes
        self._on_cluster_change = on_cluster_change
        shapes = PodShapeCache(nodes.store)
        self.usage = ClusterNodeUsage(shapes)
        self.snapshots = SnapshotBuilder(nodes.store, self.quotas.store, self.usage, shapes, scalable_jobs)
        self._can_list_quotas = True

    @property
    def own_informers(self) -> Mapping[str, Informer[Any]]:
        quotas = {RESOURCE_QUOTAS.plural: self.quotas} if self._can_list_quotas else {}
        return {"pods (all namespaces)": self.pods, **quotas}

    async def find_missing_permission(self) -> str:
        """Return which missing permission disables the autoscaler; empty if there is none."""
        for resource, objects in ((NODES, "nodes"), (PODS, "pods in all namespaces")):
            if not await self._can_list(resource):
                return f"the operator cannot list {objects}"
        self._can_list_quotas = await self._can_list(RESOURCE_QUOTAS)
        if not self._can_list_quotas:
            log.info("cannot list resource quotas: sizes are planned without them")
        return ""

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        for informer in self.own_informers.values():
            tasks.create_task(informer.run())
            await informer.wait_synced()
        await self._nodes.wait_synced()

    def on_node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or scheduling_properties(old) != scheduling_properties(new):
            self.snapshots.mark_nodes_changed()
            self._on_cluster_change(ClusterChange.CAPACITY)

    async def _can_list(self, resource: Resource) -> bool:
        while True:
            try:
                await self._client.get_raw(f"{resource.path(None)}?limit=1")
            except (Forbidden, NotFound):
                return False
            except ApiError as error:
                log.info("cannot list resource yet", extra={"resource": resource.plural, "error": str(error)})
                await asyncio.sleep(LIST_CHECK_RETRY_SECONDS)
                continue
            return True

    def _on_pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        change = self.usage.apply_pod_change(old, new)
        if change is not ClusterChange.NONE:
            self.snapshots.mark_jobs_changed(filter(None, {owning_job_uid(old), owning_job_uid(new)}))
            self._on_cluster_change(change)

    def _on_quota_changed(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._on_cluster_change(ClusterChange.CAPACITY)
