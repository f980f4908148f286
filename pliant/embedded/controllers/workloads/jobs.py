"""The Job controller: runs pods until enough of them have succeeded, and counts each result once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial

from pliant.embedded.controllers.workloads.job_manifests import build_job_pod
from pliant.embedded.controllers.workloads.job_outcome import (
    JobStatusBuilder,
    completed_condition,
    decide_outcome,
    time_until_deadline,
)
from pliant.embedded.controllers.workloads.job_pods import JobPods
from pliant.embedded.controllers.workloads.job_policies import match_failure_policy
from pliant.embedded.controllers.workloads.job_views import (
    JOB_CONTROLLER_NAME,
    TRACKING_FINALIZER,
    Condition,
    Job,
    index_failure_count,
    is_tracked,
    parse_time,
)
from pliant.embedded.controllers.workloads.ownership import Claimer
from pliant.embedded.controllers.workloads.views import JOBS, WorkloadKey, controller_of
from pliant.embedded.controllers.workloads.writes import WorkloadWriter, run_in_batches
from pliant.errors import ApiError, NotFound
from pliant.kube.cache.store import ObjectStore
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS
from pliant.runtime.clock import Clock

_MAX_WRITES_PER_SYNC = 500


class JobReconciler:
    def __init__(self, writer: WorkloadWriter, clock: Clock, jobs: ObjectStore[Job], pods: ObjectStore[Pod]) -> None:
        self._writer = writer
        self._clock = clock
        self._jobs = jobs
        self._pods = pods
        self._claimer = Claimer(writer, JOBS, PODS, Pod, finalizer=TRACKING_FINALIZER)

    async def reconcile(self, key: WorkloadKey) -> timedelta | None:
        """Create or delete pods, record their results; return when to look at the job again."""
        job = self._jobs.get(*key)
        if job is None or job.spec.managed_by != JOB_CONTROLLER_NAME:
            return None
        pods = await self._observe(job)
        if job.finished_condition is not None:
            await self._remove_finalizers(pod for pod in pods.pods if is_tracked(pod))
            return await self._delete_if_expired(job)
        outcome, error, wait = decide_outcome(pods), None, None
        if outcome is not None:
            error = await self._delete_pods(job, pods.active, is_counted=True)
        elif job.metadata.deletion_timestamp is None:
            error, wait = await self._manage_pods(job, pods)
        pods = await self._observe(job)
        if outcome is None and pods.is_complete:
            outcome = completed_condition(pods)
        if not await self._write_status(job, pods, outcome):
            return None
        if error is not None:
            raise error
        deadline = time_until_deadline(job, pods) if outcome is None else None
        return min((each for each in (wait, deadline) if each is not None), default=None)

    async def _observe(self, job: Job) -> JobPods:
        claimed = await self._claimer.claim(self._pods, job.metadata, job.spec.selector)
        return JobPods(job, claimed, self._clock.now())

    async def _manage_pods(self, job: Job, pods: JobPods) -> tuple[ApiError | None, timedelta | None]:
        """Delete surplus pods or create missing ones; return an error, and the time until pods may be created."""
        surplus = pods.active if job.spec.suspend else pods.surplus()
        if job.spec.suspend or surplus:
            return await self._delete_pods(job, surplus[:_MAX_WRITES_PER_SYNC], is_counted=False), None
        missing = pods.wanted - len(pods.active)
        if job.replaces_only_failed_pods:
            missing -= pods.terminating
        if missing <= 0:
            return None, None
        indexes: Sequence[int | None] = [None] * min(missing, _MAX_WRITES_PER_SYNC)
        if job.is_indexed:
            indexes = pods.pending_indexes(len(indexes))
        if job.spec.backoff_limit_per_index is None:
            if wait := pods.backoff():
                return None, wait
            return await self._create_pods(job, pods, indexes), None
        waits = {index: pods.index_backoff(index) for index in indexes if index is not None}
        due = [index for index, wait in waits.items() if not wait]
        return await self._create_pods(job, pods, due), min((x for x in waits.values() if x), default=None)

    async def _create_pods(self, job: Job, pods: JobPods, indexes: Iterable[int | None]) -> ApiError | None:
        return await run_in_batches(partial(self._create_pod, job, pods, index) for index in indexes)

    async def _create_pod(self, job: Job, pods: JobPods, index: int | None) -> None:
        earlier_failures = None
        if index is not None and job.spec.backoff_limit_per_index is not None:
            replaced = pods.last_failed(index)
            earlier_failures = 0
            if replaced is not None:
                is_counted = match_failure_policy(job, replaced).is_counted
                earlier_failures = index_failure_count(replaced) + int(is_counted)
        body = build_job_pod(job, index, earlier_failures)
        try:
            pod = await self._writer.create(PODS, job.metadata.namespace, body, Pod)
        except ApiError as error:
            await self._emit(job, "FailedCreate", f"Error creating: {error}", warning=True)
            raise
        await self._emit(job, "SuccessfulCreate", f"Created pod: {pod.metadata.name}")

    async def _delete_pods(self, job: Job, pods: Iterable[Pod], *, is_counted: bool) -> ApiError | None:
        return await run_in_batches(partial(self._delete_pod, job, pod, is_counted) for pod in pods)

    async def _delete_pod(self, job: Job, pod: Pod, is_counted: bool) -> None:
        """Delete a pod; one that is not counted as failed loses its finalizer first."""
        if not is_counted:
            await self._remove_finalizers([pod])
        await self._writer.delete(PODS, pod.metadata)
        await self._emit(job, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")

    async def _write_status(self, job: Job, pods: JobPods, outcome: Condition | None) -> bool:
        """Write the status if it changed, then remove the finalizers of recorded pods; False if the job is gone."""
        builder = JobStatusBuilder(pods, outcome)
        status = builder.build()
        if status != job.status:
            try:
                await self._writer.replace_status(JOBS, job.metadata, status, Job)
            except NotFound:
                return False
            for reason, message, is_warning in builder.events:
                await self._emit(job, reason, message, warning=is_warning)
        await self._remove_finalizers(builder.finalized)
        return True

    async def _remove_finalizers(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            await remove_tracking_finalizer(self._writer, pod)

    async def _delete_if_expired(self, job: Job) -> timedelta | None:
        """Delete a finished job after its time to live; return the time that remains."""
        ttl, finished = job.spec.ttl_seconds_after_finished, job.finished_condition
        if ttl is None or finished is None or job.metadata.deletion_timestamp is not None:
            return None
        now = self._clock.now()
        remaining = (parse_time(finished.get("lastTransitionTime")) or now) + timedelta(seconds=ttl) - now
        if remaining > timedelta(0):
            return remaining
        await self._writer.delete(JOBS, job.metadata, propagation="Foreground")
        return None

    async def _emit(self, job: Job, reason: str, message: str, *, warning: bool = False) -> None:
        await self._writer.emit(JOBS, job.metadata, (reason, message), warning=warning)


class OrphanPodReconciler:
    """Removes the finalizer of pods whose job does not exist any more, so that they can be deleted."""

    def __init__(self, writer: WorkloadWriter, jobs: ObjectStore[Job], pods: ObjectStore[Pod]) -> None:
        self._writer = writer
        self._jobs = jobs
        self._pods = pods

    async def reconcile(self, key: WorkloadKey) -> None:
        pod = self._pods.get(*key)
        if pod is None or not is_tracked(pod):
            return
        owner = controller_of(pod.metadata)
        job = self._jobs.get(pod.metadata.namespace, owner.name) if owner is not None else None
        if owner is None or (owner.kind == JOBS.kind and (job is None or job.metadata.uid != owner.uid)):
            await remove_tracking_finalizer(self._writer, pod)


async def remove_tracking_finalizer(writer: WorkloadWriter, pod: Pod) -> None:
    if not is_tracked(pod):
        return
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}
    try:
        await writer.merge(PODS, pod.metadata, patch, Pod)
    except NotFound:
        return
