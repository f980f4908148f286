"""Runs the workload controllers: their informers, work queues and the routing of changes to keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any

from pliant.embedded.apiserver.admission.disruption_budgets import label_selector_matches
from pliant.embedded.controllers.workloads.deployments import DeploymentReconciler
from pliant.embedded.controllers.workloads.job_views import Job, is_tracked
from pliant.embedded.controllers.workloads.jobs import JobReconciler, OrphanPodReconciler
from pliant.embedded.controllers.workloads.replica_sets import ReplicaSetReconciler
from pliant.embedded.controllers.workloads.views import (
    CONTROLLER_INDEX,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    Deployment,
    ReplicaSet,
    WorkloadKey,
    controller_of,
    index_by_controller,
    key_of,
)
from pliant.embedded.controllers.workloads.writes import WorkloadWriter
from pliant.kube.cache.informer import Informer
from pliant.kube.cache.store import Indexer, ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta, Pod
from pliant.kube.resources import PODS, Resource
from pliant.runtime.clock import Clock
from pliant.runtime.controller import Controller

_WORKERS = 4
_UNBATCHED_PODS = 20
_BATCH_DELAY_PER_POD = timedelta(milliseconds=0.5)
_MAX_BATCH_DELAY = timedelta(seconds=1)


class WorkloadControllers:
    def __init__(self, client: KubeClient, clock: Clock) -> None:
        by_controller: dict[str, Indexer[Any]] = {CONTROLLER_INDEX: index_by_controller}
        self._deployments: Informer[Deployment] = Informer(
            client, DEPLOYMENTS, Deployment, on_change=self._on_deployment_change
        )
        self._replica_sets: Informer[ReplicaSet] = Informer(
            client, REPLICA_SETS, ReplicaSet, indexes=by_controller, on_change=self._on_replica_set_change
        )
        self._jobs: Informer[Job] = Informer(client, JOBS, Job, on_change=self._on_job_change)
        self._pods: Informer[Pod] = Informer(client, PODS, Pod, indexes=by_controller, on_change=self._on_pod_change)
        stores: dict[Resource, ObjectStore[Any]] = {
            DEPLOYMENTS: self._deployments.store,
            REPLICA_SETS: self._replica_sets.store,
            JOBS: self._jobs.store,
            PODS: self._pods.store,
        }
        writer = WorkloadWriter(client, clock, stores)
        replica_sets, pods = self._replica_sets.store, self._pods.store
        replica_set_reconciler = ReplicaSetReconciler(writer, clock, replica_sets, pods)
        deployment_reconciler = DeploymentReconciler(writer, clock, self._deployments.store, replica_sets, pods)
        self._replica_set_controller = Controller("replicaset", replica_set_reconciler.reconcile, workers=_WORKERS)
        job_reconciler = JobReconciler(writer, clock, self._jobs.store, pods)
        orphan_reconciler = OrphanPodReconciler(writer, self._jobs.store, pods)
        self._deployment_controller = Controller("deployment", deployment_reconciler.reconcile, workers=_WORKERS)
        self._job_controller = Controller("job", job_reconciler.reconcile, workers=_WORKERS)
        self._orphan_controller = Controller("job-orphan-pod", orphan_reconciler.reconcile, workers=_WORKERS)

    async def run(self) -> None:
        informers: tuple[Informer[Any], ...] = (self._deployments, self._replica_sets, self._jobs, self._pods)
        controllers = (
            *(self._replica_set_controller, self._deployment_controller),
            *(self._job_controller, self._orphan_controller),
        )
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            for informer in informers:
                await informer.wait_synced()
            for controller in controllers:
                tasks.create_task(controller.run())

    def _on_deployment_change(self, old: Deployment | None, new: Deployment | None) -> None:
        if new is not None:
            self._deployment_controller.queue.add(key_of(new.metadata))

    def _on_replica_set_change(self, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        if new is not None:
            self._replica_set_controller.queue.add(key_of(new.metadata))
        enqueue = self._deployment_controller.queue.add
        _enqueue_owners(old, new, DEPLOYMENTS.kind, self._deployments.store, enqueue)

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        delay = self._batch_delay(old, new)
        for controller, kind, owners in (
            (self._replica_set_controller, REPLICA_SETS.kind, self._replica_sets.store),
            (self._job_controller, JOBS.kind, self._jobs.store),
        ):
            _enqueue_owners(old, new, kind, owners, partial(controller.queue.add_after, delay=delay))
        if new is None and old is not None:
            self._enqueue_recreating_deployment(old)
        if new is not None and is_tracked(new):
            self._orphan_controller.queue.add(key_of(new.metadata))

    def _batch_delay(self, old: Pod | None, new: Pod | None) -> timedelta:
        """Return how long to collect changes of pods: a reconcile reads all pods of their controller."""
        owners = {owner.uid for pod in (old, new) if pod is not None and (owner := controller_of(pod.metadata))}
        pods = sum(len(self._pods.store.by_index(CONTROLLER_INDEX, uid)) for uid in owners)
        return min(pods * _BATCH_DELAY_PER_POD, _MAX_BATCH_DELAY) if pods > _UNBATCHED_PODS else timedelta(0)

    def _on_job_change(self, old: Job | None, new: Job | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            for pod in self._pods.store.by_index(CONTROLLER_INDEX, old.metadata.uid):
                self._orphan_controller.queue.add(key_of(pod.metadata))
        if new is not None:
            self._job_controller.queue.add(key_of(new.metadata))

    def _enqueue_recreating_deployment(self, pod: Pod) -> None:
        """Reconcile the Deployment of a removed pod, which may wait for the end of its old pods."""
        owner = controller_of(pod.metadata)
        replica_set = self._replica_sets.store.get(pod.metadata.namespace, owner.name) if owner is not None else None
        controller = controller_of(replica_set.metadata) if replica_set is not None else None
        if controller is not None and controller.kind == DEPLOYMENTS.kind:
            self._deployment_controller.queue.add(WorkloadKey(pod.metadata.namespace, controller.name))


def _enqueue_owners(
    old: Any, new: Any, owner_kind: str, owners: ObjectStore[Any], enqueue: Callable[[WorkloadKey], None]
) -> None:
    """Enqueue the controllers of a changed object, or those that could adopt it."""
    for obj in (old, new):
        if obj is None:
            continue
        meta: ObjectMeta = obj.metadata
        controller = controller_of(meta)
        if controller is not None and controller.kind == owner_kind:
            enqueue(WorkloadKey(meta.namespace, controller.name))
    if new is not None and controller_of(new.metadata) is None:
        for owner in _selecting_owners(new.metadata, owners.all()):
            enqueue(key_of(owner.metadata))


def _selecting_owners(metadata: ObjectMeta, owners: Iterable[Any]) -> Iterable[Any]:
    return (
        each
        for each in owners
        if each.metadata.namespace == metadata.namespace and label_selector_matches(each.spec.selector, metadata.labels)
    )
