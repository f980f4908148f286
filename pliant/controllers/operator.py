"""The whole operator: informers feed queues, queues feed reconcilers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pliant.controllers.apply import Applier
from pliant.controllers.job import OWNER, Cluster, JobReconciler, resource_of
from pliant.frontends import FRONTENDS
from pliant.frontends.base import Frontend
from pliant.kube.client import KubeClient
from pliant.kube.joined import AnyInformer, informer_of
from pliant.kube.objects import Pod, Service
from pliant.kube.resources import PODS, SERVICES
from pliant.model.job import JobKey
from pliant.model.labels import MANAGED_BY, MANAGER
from pliant.runtime.clock import Clock
from pliant.runtime.controller import Controller

MANAGED = f"{MANAGED_BY}={MANAGER}"
"""Only what we made ourselves is cached: other people's pods cost nothing."""


class Operator:
    """Runs every kind of job on one cluster, or in some of its namespaces, until cancelled."""

    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        *,
        namespaces: Sequence[str] = (),
        frontends: Iterable[Frontend] = tuple(FRONTENDS.values()),
        workers: int = 16,
    ) -> None:
        watched: dict[str, Any] = {"namespaces": namespaces, "labels": MANAGED, "indexes": {OWNER: _owners}}
        self._pods = informer_of(client, PODS, Pod, on_change=self._member, **watched)
        self._services = informer_of(client, SERVICES, Service, on_change=self._member, **watched)
        applier = Applier(client, clock, self._pods.store, self._services.store)
        self._events = applier.events
        cluster = Cluster(self._pods.store, self._services.store, applier)
        self._kinds: dict[tuple[str, str], _Kind] = {}
        for frontend in frontends:
            kind = _Kind(frontend, client, clock, cluster, namespaces, workers)
            self._kinds[kind.resource.api_version, kind.resource.kind] = kind
        kinds = self._kinds.values()
        self.controllers = {kind.controller.name: kind.controller for kind in kinds}
        self.informers: dict[str, AnyInformer[Any]] = {
            PODS.full_name: self._pods,
            SERVICES.full_name: self._services,
            **{kind.resource.full_name: kind.jobs for kind in kinds},
        }
        self._ready = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether the cluster is known and jobs are being worked on."""
        return self._ready.is_set()

    async def run(self) -> None:
        """Keep every job on its way."""
        async with self._events.running(), asyncio.TaskGroup() as tasks:
            for informer in self.informers.values():
                tasks.create_task(informer.run())
            # Deciding on half a picture would create what is there already.
            await asyncio.gather(*(informer.wait_synced() for informer in self.informers.values()))
            for controller in self.controllers.values():
                tasks.create_task(controller.run())
            self._ready.set()

    async def wait_ready(self) -> None:
        """Return once the cluster is known and jobs are being worked on."""
        await self._ready.wait()

    def _member(self, old: Pod | Service | None, new: Pod | Service | None) -> None:
        """A pod or a service changed: its job must be looked at."""
        for member in (old, new):
            for ref in member.metadata.owner_references if member is not None else ():
                kind = self._kinds.get((ref.api_version, ref.kind))
                if member is not None and kind is not None and ref.controller:
                    kind.controller.queue.add(JobKey(member.metadata.namespace, ref.name))


class _Kind:
    """One kind of job: what is known of its objects and the loop that works on them."""

    def __init__(
        self,
        frontend: Frontend,
        client: KubeClient,
        clock: Clock,
        cluster: Cluster,
        namespaces: Sequence[str],
        workers: int,
    ) -> None:
        self.resource = resource_of(frontend)
        self.jobs: AnyInformer[dict[str, Any]] = informer_of(
            client, self.resource, dict, namespaces=namespaces, on_change=self._changed
        )
        reconciler = JobReconciler(frontend, client, clock, self.jobs.store, cluster)
        self.controller: Controller[JobKey] = Controller(
            self.resource.full_name, reconciler.reconcile, workers=workers
        )

    def _changed(self, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
        meta = (new or old or {})["metadata"]
        self.controller.queue.add(JobKey(meta["namespace"], meta["name"]))


def _owners(member: Pod | Service) -> Iterable[str]:
    return (ref.uid for ref in member.metadata.owner_references if ref.controller)
