"""Read, decide, apply: the reconciliation of one job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from pliant.controllers.apply import ActionApplier
from pliant.controllers.autoscale.recommendations import RecommendationStore
from pliant.controllers.masters import OWNER_INDEX, MasterObjects
from pliant.controllers.node_faults import NodeFaultDetector
from pliant.controllers.observe import CachedJobObjects, observe
from pliant.controllers.orphan_pods import OrphanPodCleaner
from pliant.controllers.progress_reports import ProgressReceiver, progress_fields
from pliant.engine.decide import decide, shortest_wait
from pliant.errors import InvalidSpec, RetryLater
from pliant.frameworks.combined import CombinedFramework
from pliant.frontends.frontend import Frontend
from pliant.frontends.status.engine_state import STATE_FIELD, raw_status
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.codec import build_merge_patch
from pliant.kube.objects import Pod, Service
from pliant.kube.resources import Resource
from pliant.model.actions import EmitEvent, JobStatusUpdate
from pliant.model.framework import Framework
from pliant.model.job import Job, JobKey, Owner
from pliant.model.labels import MANAGED_BY_VALUE
from pliant.model.operator_config import OperatorConfig
from pliant.model.scale_plans import ScalePlan
from pliant.plugins.registry import framework_of
from pliant.runtime.clock import Clock

T = TypeVar("T", bound=Pod | Service)


def resource_of(frontend: Frontend) -> Resource:
    """Where the API serves the objects of a front end's kind."""
    return Resource(frontend.group, frontend.version, frontend.plural, frontend.kind)


@dataclass(frozen=True, slots=True)
class ReconcilerDependencies:
    """What all kinds of job share: the members that exist, and the one that creates and deletes them."""

    pods: ObjectStore[Pod]
    services: ObjectStore[Service]
    applier: ActionApplier
    node_faults: NodeFaultDetector
    config: OperatorConfig
    progress_receiver: ProgressReceiver | None = None
    """Where members report, if anybody listens."""
    recommendations: RecommendationStore = field(default_factory=RecommendationStore)
    """What the autoscaler wants."""


class JobReconciler:
    """Brings the jobs of one kind one step further at a time."""

    def __init__(
        self,
        frontend: Frontend,
        client: KubeClient,
        clock: Clock,
        jobs: ObjectStore[dict[str, Any]],
        dependencies: ReconcilerDependencies,
        masters: MasterObjects | None = None,
    ) -> None:
        self.resource = resource_of(frontend)
        self._masters = masters
        self._frontend = frontend
        self._client = client
        self._clock = clock
        self._jobs = jobs
        self._dependencies = dependencies
        self._create_errors: dict[JobKey, dict[str, str]] = {}
        stores = (dependencies.pods, masters.pods) if masters else (dependencies.pods,)
        self._orphan_cleaners = [OrphanPodCleaner(client, clock, self.resource, pods) for pods in stores]

    async def reconcile(self, key: JobKey) -> timedelta | None:
        """Look at one job and do what is next; returns when to look again."""
        raw = self._jobs.get(key.namespace, key.name)
        uid = raw["metadata"]["uid"] if raw else ""
        left_over = await self._delete_orphans(key, uid)
        if raw is None:
            self._create_errors.pop(key, None)
            self._unregister_from_autoscaler(key)
            return left_over
        try:
            return shortest_wait(left_over, await self._reconcile_job(self._frontend.parse(raw), raw))
        except InvalidSpec as problem:
            self._unregister_from_autoscaler(
                key
            )  # it would not heed a wish, and others would wait for room that it never gives
            await self._reject_spec(key, raw, problem)
            return None

    async def _delete_orphans(self, key: JobKey, live_uid: str) -> timedelta | None:
        """Clear away what belongs to jobs of that name that are gone; says when to look again."""
        nodes, rules = self._dependencies.node_faults, self._dependencies.config
        if self._masters is not None:
            await self._masters.plan_store.delete_orphan_plans(key, live_uid)
        return shortest_wait(
            *[await orphans.delete_orphans(key, live_uid, nodes, rules) for orphans in self._orphan_cleaners]
        )

    async def _reconcile_job(self, job: Job, raw: Mapping[str, Any]) -> timedelta | None:
        """Decide about a job that can be understood, and act; returns when to look again."""
        if job.managed_by not in ("", MANAGED_BY_VALUE):
            self._unregister_from_autoscaler(job.key)
            return None
        cluster = self._dependencies
        if cluster.recommendations.job_observer is not None:
            cluster.recommendations.job_observer.observe_job(job, progress_fields(raw_status(raw)).get("progress", {}))
        members, wait = self._cached_objects(job)
        seen = observe(job, members, cluster.node_faults, cluster.config)
        decision = decide(job, seen, self._framework_of(job), self._clock.now())

        if decision.intent is not None:
            await self._patch_status(job, raw, decision.intent)
            await self._dependencies.applier.apply(job, decision.actions)
            return None  # the write itself calls for the next pass
        refusals = await self._dependencies.applier.apply(job, decision.actions)
        if self._masters is not None:
            await self._masters.plan_store.write_statuses(job, decision.plan_statuses)
        for status in decision.status_updates.values() or self._stale_rejection_status(job, raw):
            await self._patch_status(job, raw, status)
        # The message told of what was refused before; when that is over, nothing else may call for another pass.
        return (
            timedelta(0) if self._record_create_errors(job, refusals) else shortest_wait(decision.requeue_after, wait)
        )

    def _cached_objects(self, job: Job) -> tuple[CachedJobObjects, timedelta | None]:
        """What the caches hold of a job, and when to look at what is left alone till then."""
        cluster, uid = self._dependencies, job.owner.uid
        foreign: tuple[Pod, ...] = ()
        plans: tuple[ScalePlan, ...] = ()
        wait = None
        if self._masters is not None:
            foreign = _in_job_namespace(job, self._masters.pods.by_index(OWNER_INDEX, uid))
            plans, wait = self._masters.plan_store.plans_for(job)
        members = CachedJobObjects(
            pods=_in_job_namespace(job, cluster.pods.by_index(OWNER_INDEX, uid)),
            services=_in_job_namespace(job, cluster.services.by_index(OWNER_INDEX, uid)),
            create_errors=self._create_errors.get(job.key, {}),
            recommendations=cluster.recommendations.for_job(uid),
            external_pods=foreign,
            plans=plans,
        )
        return members, wait

    def _unregister_from_autoscaler(self, key: JobKey) -> None:
        """Leave a job that is gone, somebody else's or beyond understanding out of all plans."""
        if (listener := self._dependencies.recommendations.job_observer) is not None:
            listener.forget_job(f"{self.resource.kind}.{self.resource.group}", key)

    def _framework_of(self, job: Job) -> Framework:
        """What members are given: all that their frameworks need, and where to report, if anybody listens."""
        reports = self._dependencies.progress_receiver
        return framework_of(job) if reports is None else CombinedFramework((framework_of(job), reports.reporting))

    async def _patch_status(self, job: Job, raw: Mapping[str, Any], status: JobStatusUpdate) -> None:
        """Put a status into the kind's own words and store it."""
        before = raw_status(raw)
        news = self._dependencies.progress_receiver.status_fields(job) if self._dependencies.progress_receiver else {}
        words = self._frontend.render_status(status, before, job)
        await self._patch_raw_status(job.key, raw, {**words, **progress_fields(before), **news})

    def _stale_rejection_status(self, job: Job, raw: Mapping[str, Any]) -> tuple[JobStatusUpdate, ...]:
        """The unchanged status of a job that was rejected and has been mended since: the complaint must go."""
        if job.state is None or not self._frontend.is_rejected(raw_status(raw)):
            return ()
        return (JobStatusUpdate(state=job.state, replica_counts=job.state.replica_counts),)

    def _record_create_errors(self, job: Job, create_errors: dict[str, str]) -> bool:
        """Remember what could not be created, so that the next pass can tell the user, and try again later.

        Without refusals it says whether there were some before.
        """
        before = self._create_errors.pop(job.key, {})
        if not create_errors:
            return bool(before)
        self._create_errors[job.key] = create_errors
        name, why = next(iter(create_errors.items()))
        if create_errors != before:
            event = EmitEvent(reason="CannotCreate", message=f"{name}: {why}", is_warning=True)
            self._dependencies.applier.events.emit(job.owner, job.key.namespace, event)
        raise RetryLater(f"cannot create {name}: {why}")

    async def _patch_raw_status(self, key: JobKey, raw: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """Store a status, provided the object is still the one that was decided upon."""
        change = build_merge_patch(raw_status(raw), status)
        if not change:
            return
        patch = {"metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]}, "status": change}
        written = await self._client.patch(self.resource, key.namespace, key.name, patch, subresource="status")
        self._jobs.note_written(written)
        if status.get(STATE_FIELD) and not raw_status(written).get(STATE_FIELD):
            self._report_pruned_status(key, raw)

    def _report_pruned_status(self, key: JobKey, raw: Mapping[str, Any]) -> None:
        """Say that nothing can be remembered of a job: what comes next would be decided again and again."""
        said = (
            f"the installed CRD prunes status.{STATE_FIELD} of {self.resource.kind}: engine state cannot be persisted"
        )
        cure = f"install ours: pliant crds --kinds {self.resource.full_name} | kubectl apply -f -"
        self._emit_warning(key, raw, "CannotRemember", f"{said}; {cure}")
        raise RetryLater(f"{said}; {cure}")

    async def _reject_spec(self, key: JobKey, raw: Mapping[str, Any], problem: InvalidSpec) -> None:
        """Tell the author of a job that cannot be understood what to mend; nothing else happens to it."""
        await self._patch_raw_status(
            key, raw, self._frontend.render_rejection(problem, raw_status(raw), self._clock.now())
        )
        self._emit_warning(key, raw, "InvalidSpec", str(problem))

    def _emit_warning(self, key: JobKey, raw: Mapping[str, Any], reason: str, message: str) -> None:
        """Tell of something that is wrong with an object."""
        resource, uid = self.resource, raw["metadata"]["uid"]
        owner = Owner(api_version=resource.api_version, kind=resource.kind, name=key.name, uid=uid)
        event = EmitEvent(reason=reason, message=message, is_warning=True)
        self._dependencies.applier.events.emit(owner, key.namespace, event)


def _in_job_namespace(job: Job, objects: tuple[T, ...]) -> tuple[T, ...]:
    """Those in the job's own namespace: whoever is elsewhere may name any owner."""
    return tuple(each for each in objects if each.metadata.namespace == job.key.namespace)
