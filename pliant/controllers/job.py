"""Reconciles one job: read the caches, let the engine decide, apply the decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from pliant.controllers.accepted_specs import AcceptedSpecs
from pliant.controllers.apply import ActionApplier
from pliant.controllers.autoscale.recommendations import RecommendationStore
from pliant.controllers.job_status import JobStatusWriter
from pliant.controllers.large_jobs import LargeDecisionLimiter, hold_time, may_create_many_pods
from pliant.controllers.masters import MasterCreatedObjects
from pliant.controllers.node_faults import NodeFaultDetector
from pliant.controllers.observe import CachedJobObjects, observe, observe_clock
from pliant.controllers.orphan_pods import OrphanPodCleaner
from pliant.controllers.owned_objects import OWNER_UID_INDEX
from pliant.controllers.priority_classes import PriorityClassWatch
from pliant.controllers.progress_reports import ProgressReceiver, progress_fields
from pliant.engine.clock import align_timers
from pliant.engine.decide import decide, shortest_wait
from pliant.errors import Invalid, InvalidSpec, RetryLater, StaleDecision
from pliant.frameworks import CombinedFramework
from pliant.frameworks.master_keys import MasterKeys
from pliant.frontends.accepted_spec import ParsedJob, is_managed_externally, managed_by_rejection, reported_rejection
from pliant.frontends.frontend import Frontend
from pliant.frontends.status.engine_state import raw_status
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod, Service
from pliant.kube.resources import Resource
from pliant.kube.transport.write_flows import WriteFlow
from pliant.model.actions import Act, Decision, EmitEvent, JobStatusUpdate, PersistTransition
from pliant.model.english import render
from pliant.model.framework import Framework
from pliant.model.job import Job, JobKey, Owner
from pliant.model.messages import Message, MessageReason, message
from pliant.model.operator_config import OperatorConfig
from pliant.model.scale_plans import ScalePlan
from pliant.model.state import EngineState, JobPhase
from pliant.plugins.isolation import PluginTimeout, call_plugin, plugin_of_job
from pliant.plugins.registry import framework_of
from pliant.runtime.clock import Clock, JumpAwareClock
from pliant.runtime.controller import Controller

PLUGIN_RETRY_DELAY = timedelta(seconds=30)
"""When to retry a job whose plugin has not returned in time."""

_JOB_INPUTS = ("uid", "generation", "deletionTimestamp", "annotations")
"""The metadata of a job that changes whenever a decision about it may."""

T = TypeVar("T", bound=Pod | Service)


def resource_of(frontend: Frontend) -> Resource:
    return Resource(frontend.group, frontend.version, frontend.plural, frontend.kind)


@dataclass(frozen=True, slots=True)
class ReconcilerDependencies:
    pods: ObjectStore[Pod]
    services: ObjectStore[Service]
    applier: ActionApplier
    node_faults: NodeFaultDetector
    config: OperatorConfig
    key_secret: bytes | None = None  # for the keys of jobs; None if the operator may not read it
    progress_receiver: ProgressReceiver | None = None  # receives progress reports; None if reporting is disabled
    priority_classes: PriorityClassWatch | None = None
    recommendations: RecommendationStore = field(default_factory=RecommendationStore)
    """The autoscaler's size recommendations."""
    large_decisions: LargeDecisionLimiter = field(default_factory=LargeDecisionLimiter)


class JobReconciler:
    def __init__(
        self,
        frontend: Frontend,
        client: KubeClient,
        clock: Clock,
        jobs: ObjectStore[dict[str, Any]],
        dependencies: ReconcilerDependencies,
        masters: MasterCreatedObjects | None = None,
    ) -> None:
        self.resource = resource_of(frontend)
        self.controller: Controller[JobKey] | None = None
        """The controller that calls this reconciler, so that large jobs leave workers and time to others."""
        self._masters = masters
        self._frontend = frontend
        self._client = client
        self._clock = JumpAwareClock(clock)
        self._jobs = jobs
        self._dependencies = dependencies
        self._create_errors: dict[JobKey, dict[str, Message]] = {}
        self._accepted_specs = AcceptedSpecs(frontend, client, dependencies.applier)
        self._status = JobStatusWriter(frontend, self.resource, client, clock, jobs, dependencies.applier.events)
        stores = (dependencies.pods, masters.pods) if masters else (dependencies.pods,)
        self._orphan_cleaners = [OrphanPodCleaner(client, clock, self.resource, pods) for pods in stores]

    async def reconcile(self, key: JobKey) -> timedelta | None:
        raw = self._jobs.get(key.namespace, key.name)
        uid = raw["metadata"]["uid"] if raw else ""
        orphan_wait = await self._delete_orphans(key, uid)
        if raw is None:
            self._create_errors.pop(key, None)
            self._accepted_specs.forget(key)
            self._unregister_from_autoscaler(key)
            return orphan_wait
        try:
            return shortest_wait(orphan_wait, await self._reconcile_or_reject(key, raw))
        except Invalid as error:
            self._status.report_rejected_status(key, raw, error)
            raise  # the work queue logs it and retries with backoff

    async def _reconcile_or_reject(self, key: JobKey, raw: Mapping[str, Any]) -> timedelta | None:
        try:
            return await self._reconcile_with_fallback(key, raw)
        except InvalidSpec as error:
            # The autoscaler must not plan with a job that cannot follow its recommendations.
            self._unregister_from_autoscaler(key)
            await self._status.reject_spec(key, raw, error)
            return PLUGIN_RETRY_DELAY if isinstance(error, PluginTimeout) else None

    async def _delete_orphans(self, key: JobKey, live_uid: str) -> timedelta | None:
        """Delete pods and scale plans of deleted jobs of this name; return when to retry."""
        nodes, config = self._dependencies.node_faults, self._dependencies.config
        if self._masters is not None:
            await self._masters.plan_store.clean_up_orphan_plans(key, live_uid)
            self._report_ignored_edits(await self._masters.plan_store.acknowledge_ignored_edits(key))
        return shortest_wait(
            *[await orphans.delete_orphans(key, live_uid, nodes, config) for orphans in self._orphan_cleaners]
        )

    def _report_ignored_edits(self, plans: list[ScalePlan]) -> None:
        for plan in plans:
            resource = self._masters.plan_store.resource if self._masters else self.resource
            owner = Owner(api_version=resource.api_version, kind=resource.kind, name=plan.key.name, uid=plan.uid)
            ignored = message(MessageReason.PLAN_EDIT_IGNORED, phase=str(plan.phase))
            event = EmitEvent(reason=str(MessageReason.PLAN_EDIT_IGNORED), message=ignored, is_warning=True)
            self._dependencies.applier.events.emit(owner, plan.key.namespace, event)

    async def _reconcile_with_fallback(self, key: JobKey, raw: Mapping[str, Any]) -> timedelta | None:
        """Reconcile a job; if the engine finds that its spec cannot be carried out, with the last accepted spec."""
        parsed = await self._accepted_specs.parse(key, raw)
        try:
            return await self._reconcile_job(parsed, raw)
        except InvalidSpec as error:
            if parsed.rejection is not None:
                raise
            return await self._reconcile_job(await self._accepted_specs.fall_back(key, raw, parsed.state, error), raw)

    async def _reconcile_job(self, parsed: ParsedJob, raw: Mapping[str, Any]) -> timedelta | None:
        """Decide on a valid job and apply the decision; return when to reconcile it again."""
        state = align_timers(parsed.state, observe_clock(self._clock)) if parsed.state is not None else None
        if is_managed_externally(parsed.job):
            has_pods = bool(self._pods_of(parsed.job))
            is_rejected = has_pods or reported_rejection(self._frontend, raw) is not None
            if is_rejected and not parsed.job.is_suspended:
                raise managed_by_rejection(self._frontend)
            # The suspension goes on until the pods are gone and the status says so.
            if not has_pods and not _counts_active_replicas(parsed.job, state):
                self._unregister_from_autoscaler(parsed.job.key)
                return None
        job = await self._accepted_specs.accept(parsed, raw)
        if await self._status.sync_rejection(job, raw, parsed.rejection):
            return None  # the status write triggers the next reconcile
        cluster = self._dependencies
        if cluster.recommendations.job_observer is not None:
            progress = progress_fields(raw_status(raw)).get("progress", {})
            cluster.recommendations.job_observer.observe_job(job, state, progress)
        if cluster.priority_classes is not None and not (state is not None and state.phase.is_final):
            job = await cluster.priority_classes.mark_missing(job, self._frontend.priority_class_path)
        if not may_create_many_pods(job, state, len(self._pods_of(job)), cluster.applier.slice_size):
            return await self._decide_and_act(job, raw, state)
        if self.controller is not None:
            self.controller.release_worker(job.key)
        async with cluster.large_decisions.permit(WriteFlow(*job.key)):
            self._check_current(job.key, raw)
            return await self._decide_and_act(job, raw, state)

    async def _decide_and_act(self, job: Job, raw: Mapping[str, Any], state: EngineState | None) -> timedelta | None:
        cluster = self._dependencies
        decision, wait = await self._decide(job, state)
        if isinstance(decision, PersistTransition):
            await self._status.write(job, raw, decision.status, cluster.progress_receiver)
            await cluster.applier.apply(job, decision.events)
            return None  # the status write triggers the next reconcile
        if decision.status is None and state is not None and self._frontend.has_validation_error(raw_status(raw)):
            # The spec was rejected and is valid now: the unchanged status clears the rejection.
            unchanged = JobStatusUpdate(state=state, replica_counts=state.replica_counts)
            decision = replace(decision, status=unchanged)
        if self.controller is not None and not decision.actions:
            self.controller.queue.hold(job.key, hold_time(job))
        return await self._act(job, raw, state, decision, wait)

    async def _decide(self, job: Job, state: EngineState | None) -> tuple[Decision, timedelta | None]:
        """Return the decision of the engine, and the delay until plans that are held back become visible."""
        cluster = self._dependencies
        cached, wait = self._cached_objects(job)
        decision = await call_plugin(
            plugin_of_job(self._frontend, job),
            partial(
                decide,
                job,
                state,
                observe(job, cached, cluster.node_faults, self._clock),
                self._framework_of(job),
                self._clock.now(),
                config=cluster.config,
                recommendations=cluster.recommendations.for_job(job.owner.uid),
                clock=observe_clock(self._clock),
            ),
        )
        return decision, wait

    async def _act(
        self, job: Job, raw: Mapping[str, Any], state: EngineState | None, decision: Act, plan_wait: timedelta | None
    ) -> timedelta | None:
        """Run the actions and write the statuses; return when to reconcile the job again."""
        applier = self._dependencies.applier
        if self.controller is not None and len(decision.actions) > applier.slice_size:
            self.controller.release_worker(job.key)
        has_run = state is not None and state.first_running_at is not None
        check_current = partial(self._check_current, job.key, raw)
        create_errors, is_complete = await applier.apply(
            job, decision.actions, may_release_names=not has_run, check_current=check_current
        )
        if self._masters is not None:
            await self._masters.plan_store.write_statuses(job, decision.plan_statuses)
        if decision.status is not None:
            await self._status.write(job, raw, decision.status, self._dependencies.progress_receiver)
        # The status message names earlier create errors; no other change might trigger its update once they are over.
        had_errors = self._record_create_errors(job, create_errors)
        return timedelta(0) if had_errors or not is_complete else shortest_wait(decision.requeue_after, plan_wait)

    def _check_current(self, key: JobKey, raw: Mapping[str, Any]) -> None:
        """Raise StaleDecision if the job was edited or deleted since it was read; a new status is no such change."""
        current = self._jobs.get(*key)
        if current is raw:
            return
        if current is None or any(current["metadata"].get(each) != raw["metadata"].get(each) for each in _JOB_INPUTS):
            raise StaleDecision(f"{self.resource.kind} {key} was edited or deleted")

    def _pods_of(self, job: Job) -> tuple[Pod, ...]:
        return _in_job_namespace(job, self._dependencies.pods.by_index(OWNER_UID_INDEX, job.owner.uid))

    def _cached_objects(self, job: Job) -> tuple[CachedJobObjects, timedelta | None]:
        """Return the cached objects of a job, and the delay until plans that are held back become visible."""
        cluster, uid = self._dependencies, job.owner.uid
        external_pods: tuple[Pod, ...] = ()
        plans: tuple[ScalePlan, ...] = ()
        wait = None
        if self._masters is not None:
            external_pods = _in_job_namespace(job, self._masters.pods.by_index(OWNER_UID_INDEX, uid))
            plans, wait = self._masters.plan_store.plans_for(job)
        cached = CachedJobObjects(
            pods=self._pods_of(job),
            services=_in_job_namespace(job, cluster.services.by_index(OWNER_UID_INDEX, uid)),
            create_errors=self._create_errors.get(job.key, {}),
            external_pods=external_pods,
            plans=plans,
        )
        return cached, wait

    def _unregister_from_autoscaler(self, key: JobKey) -> None:
        """Exclude a job from planning: it is gone, invalid or managed by another controller."""
        if (listener := self._dependencies.recommendations.job_observer) is not None:
            listener.forget_job(f"{self.resource.kind}.{self.resource.group}", key)

    def _framework_of(self, job: Job) -> Framework:
        """Return the job's framework, combined with the keys of its master and with progress reporting."""
        cluster, frameworks = self._dependencies, [framework_of(job)]
        if cluster.key_secret is not None and job.master is not None:
            frameworks.append(MasterKeys(cluster.key_secret))
        if cluster.progress_receiver is not None:
            frameworks.append(cluster.progress_receiver.reporting)
        return CombinedFramework(frameworks) if len(frameworks) > 1 else frameworks[0]

    def _record_create_errors(self, job: Job, create_errors: dict[str, Message]) -> bool:
        """Remember create errors for the next reconcile and raise RetryLater.

        Without errors, return whether there were some before.
        """
        before = self._create_errors.pop(job.key, {})
        if not create_errors:
            return bool(before)
        self._create_errors[job.key] = create_errors
        error = next(iter(create_errors.values()))
        if create_errors != before:
            event = EmitEvent(reason=error.reason, message=error, is_warning=True)
            self._dependencies.applier.events.emit(job.owner, job.key.namespace, event)
        raise RetryLater(render(error))


def _counts_active_replicas(job: Job, state: EngineState | None) -> bool:
    """Return whether the status of a suspended job without a master still counts replicas as active."""
    if job.master is not None or state is None or state.phase is not JobPhase.SUSPENDED:
        return False  # another reconcile would start the master of a suspended job again
    return any(counts.active for counts in state.replica_counts.values())


def _in_job_namespace(job: Job, objects: tuple[T, ...]) -> tuple[T, ...]:
    """Return the objects in the job's namespace: objects elsewhere can name any owner."""
    return tuple(each for each in objects if each.metadata.namespace == job.key.namespace)
