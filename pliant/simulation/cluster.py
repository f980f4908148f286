"""Jobs and services on a simulated cluster: submission, progress, resizes and completion."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from pliant.autoscale.model import PodShape
from pliant.simulation.delays import SimulatedDelays
from pliant.simulation.event_queue import EventQueue
from pliant.simulation.nodes import SimulatedNodes
from pliant.simulation.pods import PodSimulator
from pliant.simulation.trace import SimulationTrace, TraceJob, TraceService
from pliant.simulation.workloads import PodSet, SimulatedJob, SimulatedPod, SimulatedPodState


class SimulatedCluster:
    def __init__(
        self,
        trace: SimulationTrace,
        delays: SimulatedDelays,
        *,
        seed: int = 1,
        is_bin_packing: bool = False,
        is_autoscaled: bool = True,
    ) -> None:
        self.event_queue = EventQueue()
        self.nodes = SimulatedNodes(trace.nodes, is_bin_packing=is_bin_packing)
        self.pods = PodSimulator(self.nodes, self.event_queue, delays, Random(seed), self)
        self.usage = UsageMeter(self.event_queue, self.nodes.total.get("cpu", 0))
        self.live_jobs: dict[SimulatedJob, None] = {}
        """Jobs that were submitted and have not finished, the oldest first."""
        self.jobs: list[SimulatedJob] = []
        self.services: list[PodSet] = []
        self.pending_pod_sets: dict[PodSet, None] = {}  # pod sets of fixed size that may have pending pods
        self.on_change: Callable[[bool], None] = lambda is_urgent: None
        """Called after each change; the argument tells whether pods are unschedulable."""
        self._is_autoscaled = is_autoscaled
        self._expected_jobs = len(trace.jobs)
        for spec in trace.jobs:
            self.event_queue.schedule(spec.submitted_at, self._submit_job, spec)
        for service in trace.services:
            self._schedule_service(service)

    @property
    def are_all_jobs_finished(self) -> bool:
        return not self.live_jobs and len(self.jobs) == self._expected_jobs

    def _submit_job(self, spec: TraceJob) -> None:
        now = self.event_queue.now
        size = spec.initial_size if self._is_autoscaled else spec.static_size
        fixed_sets = [self._pod_set(spec, now, group.shape, f"/{group.name}") for group in spec.fixed_replicas]
        replicas = self._pod_set(spec, now, spec.shape)
        replicas.is_elastic = self._is_autoscaled and spec.max_size > spec.min_size
        job = SimulatedJob(spec, replicas, fixed_sets, now)
        self.jobs.append(job)
        self.live_jobs[job] = None
        for pod_set in (*fixed_sets, replicas):
            pod_set.job = job
        for pod_set, group in zip(fixed_sets, spec.fixed_replicas, strict=True):
            if group.count:
                self.pods.create_pods(pod_set, group.count)
        if size:
            self.pods.create_pods(replicas, size)
        self.on_change(True)

    def _pod_set(self, spec: TraceJob | TraceService, now: float, shape: PodShape, suffix: str = "") -> PodSet:
        key, requests = f"{spec.namespace}/{spec.name}{suffix}", self.nodes.index_requests(shape)
        return PodSet(key, shape, requests, priority=spec.priority, created_at=now)

    def _schedule_service(self, spec: TraceService) -> None:
        pod_set = self._pod_set(spec, spec.replica_steps[0][0], spec.shape)
        self.services.append(pod_set)
        for time, count in spec.replica_steps:
            self.event_queue.schedule(time, self._scale_service, (pod_set, count))

    def _scale_service(self, scale_request: tuple[PodSet, int]) -> None:
        pod_set, count = scale_request
        delta = count - len(pod_set.pods)
        if delta > 0:
            self.pods.create_pods(pod_set, delta)
        elif delta < 0:
            # Pods that do not run yet go first, then the youngest, as with a ReplicaSet.
            pending = SimulatedPodState.PENDING
            by_deletion_order = sorted(pod_set.pods, key=lambda pod: (pod.state is not pending, -pod.sequence))
            self.pods.remove_pods(pod_set, by_deletion_order[:-delta])
        self.on_change(False)

    def resize_job(self, job: SimulatedJob, size: int) -> None:
        replicas = job.replicas
        delta = size - len(replicas.pods)
        job.elastic_group = None
        job.resize_count += 1
        if job.spec.resize_pause:
            job.paused_until = self.event_queue.now + job.spec.resize_pause
        if delta > 0:
            self.pods.create_pods(replicas, delta)
        elif delta < 0:
            self.pods.remove_pods(replicas, replicas.pods[delta:])
        self._update_progress(job)
        if job.spec.resize_pause:
            self.event_queue.schedule(job.paused_until, self._resume_job, job)

    def _resume_job(self, job: SimulatedJob) -> None:
        if job.ended_at is None:
            self._update_progress(job)

    def on_pod_set_changed(self, pod_set: PodSet) -> None:
        job = pod_set.job
        if job is not None and job.ended_at is None:
            if pod_set is job.replicas:
                job.elastic_group = None
                if job.started_at is None and pod_set.running_count:
                    job.started_at = self.event_queue.now
            self._update_progress(job)
        self.on_change(False)

    def on_pods_unschedulable(self, pod_set: PodSet) -> None:
        if not pod_set.is_elastic:
            self.pending_pod_sets[pod_set] = None
        self.on_change(True)

    def on_cpu_usage_changed(self, cpu_delta: int) -> None:
        self.usage.change_used_cpu(cpu_delta)
        self.on_change(False)

    def on_pod_started(self, pod: SimulatedPod) -> None:
        if pod.pod_set.job is None:
            self.usage.record_service_pod_start(self.event_queue.now - pod.created_at)

    def _update_progress(self, job: SimulatedJob) -> None:
        """Account for the work done so far, and schedule the completion at the new rate."""
        now = self.event_queue.now
        job.work_left -= job.work_rate * (now - job.updated_at)
        rate = 0.0
        if job.is_making_progress and now >= job.paused_until:
            rate = job.spec.throughput.throughput_at(job.replicas.running_count)
        job.updated_at = now
        if rate == job.work_rate and job.rate_version:
            return
        job.work_rate = rate
        job.rate_version += 1
        if rate and job.work_left < math.inf:
            self.event_queue.schedule(now + max(job.work_left, 0.0) / rate, self._finish_job, (job, job.rate_version))

    def _finish_job(self, job_and_version: tuple[SimulatedJob, int]) -> None:
        job, version = job_and_version
        if job.rate_version != version or job.ended_at is not None:
            return
        job.ended_at = self.event_queue.now
        job.work_left, job.work_rate = 0.0, 0.0
        del self.live_jobs[job]
        for pod_set in (*job.fixed_pod_sets, job.replicas):
            self.pending_pod_sets.pop(pod_set, None)
            self.pods.remove_pods(pod_set, pod_set.pods)
        self.on_change(False)


class UsageMeter:
    """Measures CPU usage exactly, and how long service pods waited."""

    def __init__(self, event_queue: EventQueue, total_cpu: int) -> None:
        self.used_cpu = 0
        self.total_cpu = total_cpu
        self.started_service_pods = 0
        self.total_service_wait = 0.0
        self.max_service_wait = 0.0
        self._event_queue = event_queue
        self._cpu_seconds = 0.0
        self._updated_at = 0.0

    def change_used_cpu(self, cpu_delta: int) -> None:
        self._update_cpu_seconds()
        self.used_cpu += cpu_delta

    def record_service_pod_start(self, wait: float) -> None:
        self.started_service_pods += 1
        self.total_service_wait += wait
        self.max_service_wait = max(self.max_service_wait, wait)

    @property
    def used_millicore_seconds(self) -> float:
        self._update_cpu_seconds()
        return self._cpu_seconds

    def _update_cpu_seconds(self) -> None:
        now = self._event_queue.now
        self._cpu_seconds += self.used_cpu * (now - self._updated_at)
        self._updated_at = now
