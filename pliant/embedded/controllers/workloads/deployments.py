"""The Deployment controller: replaces the pods of an old template by those of the present one, at a limited rate."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from pliant.embedded.controllers.workloads import revisions, rollout
from pliant.embedded.controllers.workloads.deployment_status import (
    DeploymentStatusBuilder,
    is_complete,
    progress_condition,
)
from pliant.embedded.controllers.workloads.ownership import Claimer
from pliant.embedded.controllers.workloads.views import (
    CONTROLLER_INDEX,
    DEPLOYMENTS,
    REPLICA_SETS,
    Deployment,
    Object,
    ReplicaSet,
    WorkloadKey,
)
from pliant.embedded.controllers.workloads.writes import WorkloadWriter
from pliant.errors import AlreadyExists, ApiError, NotFound
from pliant.kube.cache.store import ObjectStore
from pliant.kube.objects import Pod
from pliant.kube.scheduling.fit import TERMINAL_POD_PHASES
from pliant.runtime.clock import Clock


class _Revisions(NamedTuple):
    """The ReplicaSet of the present template, if it exists, and those of earlier ones."""

    new: ReplicaSet | None
    old: list[ReplicaSet]

    @property
    def all(self) -> list[ReplicaSet]:
        return [*self.old, *([self.new] if self.new is not None else ())]


class DeploymentReconciler:
    def __init__(
        self,
        writer: WorkloadWriter,
        clock: Clock,
        deployments: ObjectStore[Deployment],
        replica_sets: ObjectStore[ReplicaSet],
        pods: ObjectStore[Pod],
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._deployments = deployments
        self._replica_sets = replica_sets
        self._pods = pods
        self._claimer = Claimer(writer, DEPLOYMENTS, REPLICA_SETS, ReplicaSet)

    async def reconcile(self, key: WorkloadKey) -> timedelta | None:
        """Take the next step of a rollout and write the status; return when to check its deadline."""
        deployment = self._deployments.get(*key)
        if deployment is None:
            return None
        status = DeploymentStatusBuilder(deployment, self._clock.now())
        current = await self._claim(deployment)
        is_rollout = False
        if deployment.metadata.deletion_timestamp is None:
            status.mark_paused()
            is_rollout = not deployment.spec.paused and not rollout.is_scaled(deployment, current.all)
            if is_rollout:
                current = await self._roll_out(deployment, current, status)
            else:
                current = await self._scale_in_proportion(deployment, current)
        current = self._newest(current)
        new_status = status.build(current.all, current.new, estimates_progress=is_rollout)
        await self._write_status(deployment, current, new_status)
        return status.time_until_deadline(new_status)

    async def _claim(self, deployment: Deployment) -> _Revisions:
        claimed = await self._claimer.claim(self._replica_sets, deployment.metadata, deployment.spec.selector)
        existing = [each for each in claimed if each.metadata.deletion_timestamp is None]
        new = revisions.find_new_replica_set(deployment, existing)
        old = [each for each in existing if new is None or each.metadata.uid != new.metadata.uid]
        return _Revisions(new, sorted(old, key=rollout.created_at))

    def _newest(self, current: _Revisions) -> _Revisions:
        """Return the ReplicaSets as the writes of this reconcile left them."""

        def newest(replica_set: ReplicaSet) -> ReplicaSet:
            meta = replica_set.metadata
            known = self._replica_sets.get(meta.namespace, meta.name)
            return known if known is not None and known.metadata.uid == meta.uid else replica_set

        return _Revisions(newest(current.new) if current.new is not None else None, [newest(x) for x in current.old])

    async def _scale_in_proportion(self, deployment: Deployment, current: _Revisions) -> _Revisions:
        if current.new is not None:
            current = current._replace(new=await self._sync_new(deployment, current.new, current.old))
        sizes = rollout.plan_proportional_sizes(deployment, current.new, current.old)
        for each in current.all:
            await self._resize(deployment, each, sizes.get(each.metadata.name, each.spec.replicas), force=True)
        if deployment.spec.paused:
            await self._clean_up(deployment, current.old)
        return current

    async def _roll_out(
        self, deployment: Deployment, current: _Revisions, status: DeploymentStatusBuilder
    ) -> _Revisions:
        new, old = current
        if new is not None:
            new = await self._sync_new(deployment, new, old)
        if not rollout.is_rolling(deployment):
            scaled = [await self._resize(deployment, each, 0) for each in old]
            if any(scaled) or self._has_running_pods(old):
                return _Revisions(new, old)
        if new is None:
            new = await self._create_new(deployment, old, status)
            if new is None:
                return current
        if await self._resize(deployment, new, rollout.plan_new_size(deployment, old, new.spec.replicas)):
            return _Revisions(new, old)
        sizes = rollout.plan_old_sizes(deployment, new, old)
        scaled = [await self._resize(deployment, x, sizes.get(x.metadata.name, x.spec.replicas)) for x in old]
        if not any(scaled) and is_complete(deployment, deployment.status):
            old = await self._clean_up(deployment, old)
        return _Revisions(new, old)

    def _has_running_pods(self, replica_sets: Sequence[ReplicaSet]) -> bool:
        pods = (pod for each in replica_sets for pod in self._pods.by_index(CONTROLLER_INDEX, each.metadata.uid))
        return any(pod.status.phase not in TERMINAL_POD_PHASES for pod in pods)

    async def _sync_new(self, deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> ReplicaSet:
        """Copy annotations and `minReadySeconds` to the ReplicaSet, and its revision to the Deployment."""
        annotations = revisions.synced_annotations(deployment, new, revisions.next_revision(old))
        patch: Object = {"metadata": {"annotations": annotations}} if annotations else {}
        if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
            patch["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds}
        if patch:
            new = await self._writer.patch(REPLICA_SETS, new.metadata, patch, ReplicaSet)
        return new

    async def _create_new(
        self, deployment: Deployment, old: Sequence[ReplicaSet], status: DeploymentStatusBuilder
    ) -> ReplicaSet | None:
        """Create the ReplicaSet of the present template; return None if its name is taken by another one."""
        meta, now = deployment.metadata, self._clock.now()
        size = rollout.plan_new_size(deployment, old, 0)
        body = revisions.build_replica_set(deployment, size, revisions.next_revision(old))
        name = body["metadata"]["name"]
        try:
            new = await self._writer.create(REPLICA_SETS, meta.namespace, body, ReplicaSet)
        except AlreadyExists:
            await self._count_collision(deployment)
            return None
        except ApiError as error:
            message = f'Failed to create new replica set "{name}": {error}'
            condition = progress_condition("False", "ReplicaSetCreateError", message, now)
            status.set_condition(condition)
            await self._emit(deployment, "ReplicaSetCreateError", message, warning=True)
            raise
        if size:
            await self._emit(deployment, "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {size}")
        status.set_condition(
            progress_condition("True", "NewReplicaSetCreated", f'Created new replica set "{name}"', now)
        )
        return new

    async def _count_collision(self, deployment: Deployment) -> None:
        """Let the next reconcile choose another name for the ReplicaSet."""
        count = int(deployment.status.get("collisionCount") or 0) + 1
        status = {**deployment.status, "collisionCount": count}
        await self._writer.replace_status(DEPLOYMENTS, deployment.metadata, status, Deployment)

    async def _resize(self, deployment: Deployment, replica_set: ReplicaSet, size: int, *, force: bool = False) -> bool:
        """Set the size of a ReplicaSet; with `force`, also update its annotations about the size."""
        annotations = revisions.replica_annotations(deployment)
        is_same = replica_set.spec.replicas == size
        is_annotated = annotations.items() <= replica_set.metadata.annotations.items()
        if is_same and (is_annotated or not force or not size):
            return False
        patch = {"metadata": {"annotations": annotations}, "spec": {"replicas": size}}
        await self._writer.patch(REPLICA_SETS, replica_set.metadata, patch, ReplicaSet)
        if not is_same:
            direction = "up" if size > replica_set.spec.replicas else "down"
            scaled = f"Scaled {direction} replica set {replica_set.metadata.name}"
            message = f"{scaled} from {replica_set.spec.replicas} to {size}"
            await self._emit(deployment, "ScalingReplicaSet", message)
        return not is_same

    async def _clean_up(self, deployment: Deployment, old: list[ReplicaSet]) -> list[ReplicaSet]:
        """Delete the oldest empty ReplicaSets beyond the history limit; return the others."""
        surplus = len(old) - deployment.spec.revision_history_limit
        by_revision = sorted(old, key=lambda each: revisions.revision_of(each.metadata.annotations))
        removed = [each for each in by_revision[: max(surplus, 0)] if _is_empty(each)]
        for each in removed:
            await self._writer.delete(REPLICA_SETS, each.metadata, propagation="Background")
        return [each for each in old if each not in removed]

    async def _write_status(self, deployment: Deployment, current: _Revisions, status: Object) -> None:
        """Write the revision, which is an annotation, and the status, if they changed."""
        try:
            if current.new is not None:
                deployment = await self._write_revision(deployment, current.new)
            if status != deployment.status:
                await self._writer.replace_status(DEPLOYMENTS, deployment.metadata, status, Deployment)
        except NotFound:
            return

    async def _write_revision(self, deployment: Deployment, new: ReplicaSet) -> Deployment:
        revision = new.metadata.annotations.get(revisions.REVISION_ANNOTATION)
        if revision is None or deployment.metadata.annotations.get(revisions.REVISION_ANNOTATION) == revision:
            return deployment
        patch = {"metadata": {"annotations": {revisions.REVISION_ANNOTATION: revision}}}
        return await self._writer.patch(DEPLOYMENTS, deployment.metadata, patch, Deployment)

    async def _emit(self, deployment: Deployment, reason: str, message: str, *, warning: bool = False) -> None:
        await self._writer.emit(DEPLOYMENTS, deployment.metadata, (reason, message), warning=warning)


def _is_empty(replica_set: ReplicaSet) -> bool:
    status = replica_set.status
    is_observed = (status.get("observedGeneration") or 0) >= replica_set.metadata.generation
    return replica_set.spec.replicas == 0 and not status.get("replicas") and is_observed
