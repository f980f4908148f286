"""The whole operator: informers feed queues, queues feed reconcilers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pliant.controllers.apply import Applier
from pliant.controllers.autoscale.controller import Autoscaler
from pliant.controllers.autoscale.options import Options
from pliant.controllers.job import Cluster, JobReconciler, resource_of
from pliant.controllers.masters import OWNER, MastersWatch
from pliant.controllers.nodes import NODE, NodeWatch, ills_of, nodes_of
from pliant.controllers.orphans import JOB_NAME, job_names
from pliant.controllers.reports import ReportDesk
from pliant.controllers.served import wait_served
from pliant.errors import ApiError, Forbidden, InvalidSpec
from pliant.frontends.base import Frontend
from pliant.kube.client import KubeClient
from pliant.kube.informer import Informer
from pliant.kube.joined import AnyInformer, informer_of
from pliant.kube.objects import Node, Pod, Service
from pliant.kube.pacing import Pace
from pliant.kube.resources import NODES, PODS, SERVICES
from pliant.model.job import Job, JobKey
from pliant.model.labels import MANAGED_BY, MANAGER
from pliant.model.rules import Rules
from pliant.plugins.known import kinds
from pliant.runtime.clock import Clock
from pliant.runtime.controller import Controller

MANAGED = f"{MANAGED_BY}={MANAGER}"
"""Only what we made ourselves is cached: other people's pods cost nothing."""

TURNED_OFF = "the operator was started with --autoscale off"
ONE_OF_SOME = "the operator works in some namespaces only, and others use the same nodes"

log = logging.getLogger(__name__)


class Operator:
    """Runs every kind of job on one cluster, or in some of its namespaces, until cancelled."""

    def __init__(  # noqa: PLR0913
        self,
        client: KubeClient,
        clock: Clock,
        *,
        namespaces: Sequence[str] = (),
        frontends: Iterable[Frontend] | None = None,
        workers: int = 16,
        rules: Rules | None = None,
        reports: ReportDesk | None = None,
        autoscale: Options | None = None,
    ) -> None:
        self.pace = client.pace or Pace()
        client = client.paced(self.pace)
        watched: dict[str, Any] = {"namespaces": namespaces, "labels": MANAGED, "on_change": self._member}
        self._pods = informer_of(client, PODS, Pod, indexes=POD_INDEXES, **watched)
        self._services = informer_of(client, SERVICES, Service, indexes={OWNER: _owners}, **watched)
        self._nodes = Informer(client, NODES, Node, on_change=self._node_changed)
        self._node_watch = NodeWatch(self._nodes.store, clock)
        self._client = client
        applier = Applier(client, clock, self._pods.store, self._services.store)
        self._events = applier.events
        stores = (self._pods.store, self._services.store)
        cluster = Cluster(*stores, applier, self._node_watch, rules or Rules(), reports)
        self._kinds: dict[tuple[str, str], _Kind] = {}
        for frontend in kinds().values() if frontends is None else frontends:
            kind = _Kind(frontend, client, clock, cluster, namespaces, workers)
            self._kinds[kind.resource.api_version, kind.resource.kind] = kind
        self.controllers: dict[str, Controller[Any]] = {
            kind.controller.name: kind.controller for kind in self._kinds.values()
        }
        self.informers: dict[str, AnyInformer[Any]] = {
            PODS.full_name: self._pods,
            SERVICES.full_name: self._services,
            **{kind.resource.full_name: kind.jobs for kind in self._kinds.values()},
        }
        """Those of kinds that turn out not to be installed are taken out until they are."""
        self.autoscaler: Autoscaler | None = None
        """Sets sizes, if it was asked for."""
        if autoscale is not None:
            self.autoscaler = cluster.wishes.listener = Autoscaler(
                client,
                clock,
                self._nodes,
                cluster.wishes,
                autoscale,
                jobs=self._every_job,
                on_wish=self._wished,
                hindrance=(ONE_OF_SOME if namespaces else "") if autoscale.policy else TURNED_OFF,
            )
            self.controllers[self.autoscaler.controller.name] = self.autoscaler.controller
        self._members_known = asyncio.Event()
        self._ready = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether the cluster is known and jobs are being worked on."""
        return self._ready.is_set()

    async def run(self) -> None:
        """Keep every job on its way."""
        async with self._events.running(), asyncio.TaskGroup() as tasks:
            every = list(self._kinds.values())
            for kind in every:
                tasks.create_task(self._work_on(kind, tasks))
            for informer in (self._pods, self._services):
                tasks.create_task(informer.run())
            nodes = tasks.create_task(self._follow_nodes(tasks))
            await asyncio.gather(nodes, self._pods.wait_synced(), self._services.wait_synced())
            # Deciding on half a picture would create what is there already.
            self._members_known.set()
            await asyncio.gather(*(kind.known.wait() for kind in every))
            if self.autoscaler is not None:
                tasks.create_task(self.autoscaler.run())
            self._ready.set()

    async def wait_ready(self) -> None:
        """Return once the cluster is known and jobs are being worked on."""
        await self._ready.wait()

    async def _work_on(self, kind: _Kind, tasks: asyncio.TaskGroup) -> None:
        """Look after the jobs of a kind as soon as the cluster knows it."""

        def absent() -> None:
            self.informers.pop(kind.resource.full_name, None)
            kind.known.set()

        await wait_served(self._client, kind.resource, absent)
        self.informers[kind.resource.full_name] = kind.jobs
        tasks.create_task(kind.jobs.run())
        if kind.masters is not None:
            await kind.masters.follow(tasks, self.informers)
        await asyncio.gather(kind.jobs.wait_synced(), self._members_known.wait())
        tasks.create_task(kind.controller.run())
        kind.known.set()

    async def _follow_nodes(self, tasks: asyncio.TaskGroup) -> None:
        """Know the nodes; to know them is a help, not a need, and not everybody may."""
        try:
            await self._client.raw(f"{NODES.path(None)}?limit=1")
        except Forbidden as problem:
            log.warning("nodes may not be seen, so their faults go unnoticed", extra={"because": str(problem)})
            return
        except ApiError as problem:
            log.debug("nodes not seen at once", extra={"because": str(problem)})
        tasks.create_task(self._nodes.run())
        await self._nodes.wait_synced()
        self._node_watch.is_known = True

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """A node fell ill or recovered: the jobs with pods on it must be looked at."""
        if self.autoscaler is not None:
            self.autoscaler.node_changed(old, new)
        if old is None or new is None or list(ills_of(old)) != list(ills_of(new)):
            names = {node.metadata.name for node in (old, new) if node is not None}
            for pod in (pod for name in names for pod in self._pods.store.by_index(NODE, name)):
                self._member(None, pod)
            for kind in self._kinds.values():
                if kind.masters is not None:
                    kind.masters.node_changed(names)

    def _every_job(self) -> Iterator[Job]:
        """Every job that can be understood and is ours."""
        for kind in self._kinds.values():
            for known in kind.jobs.store.all():
                # Whoever takes them may let time pass between two.
                raw = kind.jobs.store.get(known["metadata"]["namespace"], known["metadata"]["name"])
                with suppress(InvalidSpec):
                    job = kind.frontend.parse(raw) if raw is not None else None
                    if job is not None and job.managed_by in ("", MANAGER):
                        yield job

    def _wished(self, job: Job) -> None:
        """The autoscaler wants something of a job: it must be looked at."""
        self._kinds[job.owner.api_version, job.owner.kind].controller.queue.add(job.key)

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
        self.frontend = frontend
        self.resource = resource_of(frontend)
        self.known = asyncio.Event()
        """Set once its jobs are known, or known not to be: the cluster has no such kind."""
        self.jobs: AnyInformer[dict[str, Any]] = informer_of(
            client, self.resource, dict, namespaces=namespaces, on_change=self._changed
        )
        self.masters: MastersWatch | None = None
        """What masters of its jobs write and make, if they have some."""
        if frontend.plans is not None:
            self.masters = MastersWatch(frontend, frontend.plans, client, clock, namespaces, self._wake)
            cluster.applier.serve_masters(self.resource, self.masters.desk, self.masters.pods.store)
        known = self.masters.known if self.masters else None
        reconciler = JobReconciler(frontend, client, clock, self.jobs.store, cluster, known)
        self.controller: Controller[JobKey] = Controller(
            self.resource.full_name, reconciler.reconcile, workers=workers
        )

    def _wake(self, key: JobKey) -> None:
        self.controller.queue.add(key)

    def _changed(self, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
        meta = (new or old or {})["metadata"]
        self._wake(JobKey(meta["namespace"], meta["name"]))


def _owners(member: Pod | Service) -> Iterable[str]:
    return (ref.uid for ref in member.metadata.owner_references if ref.controller)


POD_INDEXES = {OWNER: _owners, NODE: nodes_of, JOB_NAME: job_names}
