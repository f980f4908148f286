"""Watches what job masters create: scale plans and pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.controllers.crds import wait_until_served
from pliant.controllers.node_faults import NODE_INDEX, node_index_keys
from pliant.controllers.orphan_pods import JOB_NAME_INDEX, external_job_name_index_keys
from pliant.controllers.owned_objects import OWNER_UID_INDEX
from pliant.controllers.scale_plans import JOB_INDEX, ScalePlanStore, job_key_of_plan, plan_resource
from pliant.frontends.frontend import Frontend, PlanFrontend
from pliant.kube.cache.multi_namespace import AnyInformer, create_informer
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS, Resource
from pliant.model.job import JobKey
from pliant.model.labels import MANAGED_BY_LABEL, MANAGED_BY_VALUE
from pliant.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class MasterCreatedObjects:
    plan_store: ScalePlanStore
    pods: ObjectStore[Pod]  # pods that masters created, whichever owner they name


class MasterObjectsWatch:
    def __init__(
        self,
        frontend: Frontend,
        plan_kind: PlanFrontend,
        client: KubeClient,
        clock: Clock,
        namespaces: Sequence[str],
        enqueue: Callable[[JobKey], None],
    ) -> None:
        self._plan_kind = plan_kind
        jobs = Resource(frontend.group, frontend.version, frontend.plural, frontend.kind)
        self._job_resource = jobs
        self._client = client
        self._enqueue = enqueue
        self._plan_resource = plan_resource(plan_kind)
        self.plan_informer: AnyInformer[dict[str, Any]] = create_informer(
            client,
            self._plan_resource,
            dict,
            namespaces=namespaces,
            indexes={JOB_INDEX: lambda raw: (str(job_key_of_plan(plan_kind, raw)),)},
            on_change=self._on_plan_changed,
        )
        self.pod_informer: AnyInformer[Pod] = create_informer(
            client,
            PODS,
            Pod,
            namespaces=namespaces,
            labels=f"{frontend.master_pods_job_label},{MANAGED_BY_LABEL}!={MANAGED_BY_VALUE}",
            indexes={
                OWNER_UID_INDEX: _owner_uids,
                NODE_INDEX: node_index_keys,
                JOB_NAME_INDEX: external_job_name_index_keys,
            },
            on_change=self._on_pod_changed,
        )
        self.plan_store = ScalePlanStore(plan_kind, jobs, client, clock, self.plan_informer.store)
        self.objects = MasterCreatedObjects(self.plan_store, self.pod_informer.store)

    async def start(self, tasks: asyncio.TaskGroup, informers: dict[str, AnyInformer[Any]]) -> None:
        """Start the informers and return once they are synced; keep polling for a plan CRD that is not installed."""
        synced = asyncio.Event()
        tasks.create_task(self.pod_informer.run())
        informers[f"{PODS.full_name} of {self._job_resource.full_name}"] = self.pod_informer
        tasks.create_task(self._start_plan_informer(tasks, informers, synced))
        # The engine would treat a plan that is missing from the cache as finished.
        await asyncio.gather(self.pod_informer.wait_synced(), synced.wait())

    def on_nodes_changed(self, node_names: Iterable[str]) -> None:
        for pod in (pod for name in node_names for pod in self.pod_informer.store.by_index(NODE_INDEX, name)):
            self._on_pod_changed(None, pod)

    async def _start_plan_informer(
        self, tasks: asyncio.TaskGroup, informers: dict[str, AnyInformer[Any]], synced: asyncio.Event
    ) -> None:
        await wait_until_served(self._client, self._plan_resource, synced.set)
        informers[self._plan_resource.full_name] = self.plan_informer
        tasks.create_task(self.plan_informer.run())
        await self.plan_informer.wait_synced()
        synced.set()

    def _on_plan_changed(self, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
        if new is None and old is not None:
            self.plan_store.forget_parsed_plan(old)
        for key in {job_key_of_plan(self._plan_kind, raw) for raw in (old, new) if raw is not None}:
            self._enqueue(key)

    def _on_pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        ours = (self._job_resource.api_version, self._job_resource.kind)
        for pod in filter(None, (old, new)):
            for ref in pod.metadata.owner_references:
                if (ref.api_version, ref.kind) == ours:
                    self._enqueue(JobKey(pod.metadata.namespace, ref.name))


def _owner_uids(pod: Pod) -> Iterable[str]:
    return (ref.uid for ref in pod.metadata.owner_references)
