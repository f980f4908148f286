"""The operator: informers feed work queues, work queues feed reconcilers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from pliant.controllers.apply import ActionApplier
from pliant.controllers.autoscale.controller import AutoscaleController
from pliant.controllers.autoscale.options import AutoscaleOptions
from pliant.controllers.crds import wait_until_served
from pliant.controllers.job import JobReconciler, ReconcilerDependencies, resource_of
from pliant.controllers.masters import MasterObjectsWatch
from pliant.controllers.membership.job_objects import CachedJobObjects
from pliant.controllers.node_faults import NODE_INDEX, NodeFaultDetector, node_index_keys
from pliant.controllers.orphan_pods import JOB_NAME_INDEX, job_name_index_keys
from pliant.controllers.owned_objects import OWNER_UID_INDEX, UNOWNED_INDEX, unowned_index_keys
from pliant.controllers.priority_classes import PriorityClassWatch
from pliant.controllers.progress_reports import ProgressReceiver
from pliant.errors import ApiError, Forbidden, InvalidSpec
from pliant.frontends.accepted_spec import is_managed_externally, parse_stored_job
from pliant.frontends.frontend import Frontend
from pliant.kube.cache.informer import Informer
from pliant.kube.cache.multi_namespace import AnyInformer, create_informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node, Pod, Service
from pliant.kube.resources import NODES, PODS, SERVICES
from pliant.kube.transport.write_limiter import AdaptiveWriteLimiter
from pliant.model.job import Job, JobKey
from pliant.model.labels import MANAGED_BY_LABEL, MANAGED_BY_VALUE
from pliant.model.operator_config import OperatorConfig
from pliant.model.state import EngineState
from pliant.plugins.isolation import plugin_of_kind
from pliant.plugins.registry import registered_kinds
from pliant.runtime.clock import Clock
from pliant.runtime.controller import Controller

MANAGED_SELECTOR = f"{MANAGED_BY_LABEL}={MANAGED_BY_VALUE}"
"""Only objects that the operator created are cached, whatever else runs on the cluster."""

AUTOSCALE_OFF_REASON = "the operator was started with --autoscale off"
AUTOSCALE_NAMESPACED_OFF_REASON = "the operator watches some namespaces only, while pods of others use the same nodes"

log = logging.getLogger(__name__)


class Operator:
    """Runs jobs of every kind on one cluster, or in some of its namespaces, until cancelled."""

    def __init__(  # noqa: PLR0913
        self,
        client: KubeClient,
        clock: Clock,
        *,
        namespaces: Sequence[str] = (),
        frontends: Iterable[Frontend] | None = None,
        workers: int = 64,
        config: OperatorConfig | None = None,
        key_secret: bytes | None = None,
        progress_receiver: ProgressReceiver | None = None,
        autoscale_options: AutoscaleOptions | None = None,
    ) -> None:
        self.write_limiter = client.write_limiter or AdaptiveWriteLimiter()
        client = client.with_write_limiter(self.write_limiter)
        watched: dict[str, Any] = {
            "namespaces": namespaces,
            "labels": MANAGED_SELECTOR,
            "on_change": self._on_owned_object_changed,
        }
        self._pods = create_informer(client, PODS, Pod, indexes=POD_INDEXES, **watched)
        self._services = create_informer(
            client, SERVICES, Service, indexes={OWNER_UID_INDEX: _controller_uids}, **watched
        )
        self._nodes = Informer(client, NODES, Node, on_change=self._on_node_changed)
        self._node_faults = NodeFaultDetector(self._nodes.store, clock)
        self._client = client
        has_secret = key_secret is not None
        applier = ActionApplier(client, clock, self._pods.store, self._services.store, has_key_secret=has_secret)
        self._events = applier.events
        stores = (self._pods.store, self._services.store)
        self._priority_classes = PriorityClassWatch(client)
        cluster = ReconcilerDependencies(
            *stores,
            applier,
            self._node_faults,
            config or OperatorConfig(),
            key_secret,
            progress_receiver,
            self._priority_classes,
        )
        self._kinds: dict[tuple[str, str], _JobKindController] = {}
        for frontend in registered_kinds().values() if frontends is None else frontends:
            kind = _JobKindController(frontend, client, clock, cluster, namespaces, workers)
            self._kinds[kind.resource.api_version, kind.resource.kind] = kind
        self.controllers: dict[str, Controller[Any]] = {
            kind.controller.name: kind.controller for kind in self._kinds.values()
        }
        self.informers: dict[str, AnyInformer[Any]] = {
            PODS.full_name: self._pods,
            SERVICES.full_name: self._services,
            **{kind.resource.full_name: kind.jobs for kind in self._kinds.values()},
        }
        """Informers by resource name; those of kinds that are not installed are removed until they are."""
        self.autoscaler: AutoscaleController | None = None
        if autoscale_options is not None:
            self.autoscaler = cluster.recommendations.job_observer = AutoscaleController(
                client,
                clock,
                self._nodes,
                cluster.recommendations,
                autoscale_options,
                list_jobs=self._list_jobs,
                on_recommendation=self._enqueue_job,
                disabled_reason=(AUTOSCALE_NAMESPACED_OFF_REASON if namespaces else "")
                if autoscale_options.policy
                else AUTOSCALE_OFF_REASON,
            )
            self.controllers[self.autoscaler.controller.name] = self.autoscaler.controller
        self._progress_receiver = progress_receiver
        self._objects_synced = asyncio.Event()
        self._ready = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    async def run(self) -> None:
        with self._serve_membership():
            await self._run()

    def _serve_membership(self) -> AbstractContextManager[None]:
        """Let replicas that ask for the membership of their job get it from the stores of this operator."""
        if self._progress_receiver is None:
            return nullcontext()
        kinds = list(self._kinds.values())
        jobs = {(kind.frontend.group, kind.frontend.plural): kind.jobs.store for kind in kinds}
        pods = [self._pods.store, *(kind.masters.pod_informer.store for kind in kinds if kind.masters is not None)]
        objects = CachedJobObjects(jobs, pods, self.wait_ready)
        return self._progress_receiver.membership.use(objects, [kind.frontend for kind in kinds])

    async def _run(self) -> None:
        async with self._events.run_in_background(), asyncio.TaskGroup() as tasks:
            self._priority_classes.attach(tasks)
            kinds = list(self._kinds.values())
            for kind in kinds:
                tasks.create_task(self._run_kind(kind, tasks))
            for informer in (self._pods, self._services):
                tasks.create_task(informer.run())
            nodes = tasks.create_task(self._start_node_informer(tasks))
            await asyncio.gather(nodes, self._pods.wait_synced(), self._services.wait_synced())
            # Without all pods and services in the cache, a reconcile would create duplicates.
            self._objects_synced.set()
            await asyncio.gather(*(kind.synced.wait() for kind in kinds))
            if self.autoscaler is not None:
                tasks.create_task(self.autoscaler.run())
            self._ready.set()

    async def wait_ready(self) -> None:
        await self._ready.wait()

    async def _run_kind(self, kind: _JobKindController, tasks: asyncio.TaskGroup) -> None:
        """Run the controller of a kind as soon as the API server serves the kind."""

        def on_absent() -> None:
            self.informers.pop(kind.resource.full_name, None)
            kind.synced.set()

        await wait_until_served(self._client, kind.resource, on_absent)
        self.informers[kind.resource.full_name] = kind.jobs
        tasks.create_task(kind.jobs.run())
        if kind.masters is not None:
            await kind.masters.start(tasks, self.informers)
        await asyncio.gather(kind.jobs.wait_synced(), self._objects_synced.wait())
        tasks.create_task(kind.controller.run())
        kind.synced.set()

    async def _start_node_informer(self, tasks: asyncio.TaskGroup) -> None:
        """Watch nodes if the operator may list them; it works without."""
        try:
            await self._client.get_raw(f"{NODES.path(None)}?limit=1")
        except Forbidden as error:
            log.warning("cannot list nodes: node-failure detection is disabled", extra={"error": str(error)})
            return
        except ApiError as error:
            log.debug("cannot list nodes yet", extra={"error": str(error)})
        tasks.create_task(self._nodes.run())
        await self._nodes.wait_synced()
        self._node_faults.is_enabled = True

    def _on_node_changed(self, old: Node | None, new: Node | None) -> None:
        """Enqueue the jobs with pods that a change of a node may concern."""
        if self.autoscaler is not None:
            self.autoscaler.on_node_changed(old, new)
        keys = self._node_faults.on_node_changed(old, new)
        for pod in (pod for key in keys for pod in self._pods.store.by_index(NODE_INDEX, key)):
            self._on_owned_object_changed(None, pod)
        for kind in self._kinds.values():
            if kind.masters is not None:
                kind.masters.on_nodes_changed(keys)

    def _list_jobs(self) -> Iterator[tuple[Job, EngineState | None]]:
        # Parsing a job of a plugin may block; these jobs are registered when they are reconciled.
        for kind in (each for each in self._kinds.values() if not plugin_of_kind(each.frontend)):
            for listed in kind.jobs.store.all():
                # The caller may await between two jobs: read the current object.
                raw = kind.jobs.store.get(listed["metadata"]["namespace"], listed["metadata"]["name"])
                if raw is None:
                    continue
                with suppress(InvalidSpec):
                    parsed = parse_stored_job(kind.frontend, raw)
                    if not is_managed_externally(parsed.job):
                        yield parsed.job, parsed.state

    def _enqueue_job(self, job: Job) -> None:
        self._kinds[job.owner.api_version, job.owner.kind].controller.queue.add(job.key)

    def _on_owned_object_changed(self, old: Pod | Service | None, new: Pod | Service | None) -> None:
        for owned in (each for each in (old, new) if each is not None):
            for ref in owned.metadata.owner_references:
                kind = self._kinds.get((ref.api_version, ref.kind))
                if kind is not None and ref.controller:
                    kind.controller.queue.add(JobKey(owned.metadata.namespace, ref.name))


class _JobKindController:
    def __init__(
        self,
        frontend: Frontend,
        client: KubeClient,
        clock: Clock,
        dependencies: ReconcilerDependencies,
        namespaces: Sequence[str],
        workers: int,
    ) -> None:
        self.frontend = frontend
        self.resource = resource_of(frontend)
        self._progress_receiver = dependencies.progress_receiver
        self.synced = asyncio.Event()  # set once the jobs are cached, or the kind is known not to be installed
        self.jobs: AnyInformer[dict[str, Any]] = create_informer(
            client, self.resource, dict, namespaces=namespaces, on_change=self._on_job_changed
        )
        self.masters: MasterObjectsWatch | None = None
        """Watches the objects of the jobs' masters; None if jobs of this kind have none."""
        if frontend.plan_frontend is not None:
            self.masters = MasterObjectsWatch(
                frontend, frontend.plan_frontend, client, clock, namespaces, self._enqueue
            )
            dependencies.applier.register_master_kind(
                self.resource, self.masters.plan_store, self.masters.pod_informer.store
            )
        master_objects = self.masters.objects if self.masters else None
        reconciler = JobReconciler(frontend, client, clock, self.jobs.store, dependencies, master_objects)
        self.controller: Controller[JobKey] = Controller(self.resource.full_name, reconciler.reconcile, workers=workers)
        reconciler.controller = self.controller

    def _enqueue(self, key: JobKey) -> None:
        self.controller.queue.add(key)

    def _on_job_changed(self, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
        if self._progress_receiver is not None:
            self._progress_receiver.membership.on_job_changed(self.resource, old, new)
        meta = (new or old or {})["metadata"]
        self._enqueue(JobKey(meta["namespace"], meta["name"]))


def _controller_uids(owned: Pod | Service) -> Iterable[str]:
    return (ref.uid for ref in owned.metadata.owner_references if ref.controller)


POD_INDEXES = {
    OWNER_UID_INDEX: _controller_uids,
    UNOWNED_INDEX: unowned_index_keys,
    NODE_INDEX: node_index_keys,
    JOB_NAME_INDEX: job_name_index_keys,
}
