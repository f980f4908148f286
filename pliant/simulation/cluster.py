"""Jobs and services on a simulated cluster: how they come, get on, change their size and end."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from pliant.simulation.delays import SimulatedDelays
from pliant.simulation.event_queue import EventQueue
from pliant.simulation.nodes import SimulatedNodes
from pliant.simulation.pods import PodSimulator
from pliant.simulation.trace import SimulationTrace, TraceJob, TraceService
from pliant.simulation.workloads import PodSet, SimulatedJob, SimulatedPod, SimulatedPodState


class SimulatedCluster:
    """Everything that happens, as seconds go by."""

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
        """Jobs that have come and not ended, the oldest first."""
        self.jobs: list[SimulatedJob] = []
        self.services: list[PodSet] = []
        self.pending_pod_sets: dict[PodSet, None] = {}
        """Crews of fixed size that may have pods waiting."""
        self.on_change: Callable[[bool], None] = lambda is_urgent: None
        """Told that something has changed, and whether somebody cannot be placed."""
        self._is_autoscaled = is_autoscaled
        self._expected_jobs = len(trace.jobs)
        for spec in trace.jobs:
            self.event_queue.schedule(spec.submitted_at, self._submit_job, spec)
        for service in trace.services:
            self._schedule_service(service)

    @property
    def is_finished(self) -> bool:
        """Whether every job has come and ended."""
        return not self.live_jobs and len(self.jobs) == self._expected_jobs

    def _submit_job(self, spec: TraceJob) -> None:
        now = self.event_queue.now
        size = spec.initial_size if self._is_autoscaled else spec.static_size
        staff = [
            PodSet(f"{spec.namespace}/{spec.name}/{group.name}", group.shape, self.nodes.index_requests(group.shape),
                 priority=spec.priority, created_at=now)
            for group in spec.fixed_replicas
        ]  # fmt: skip
        members = PodSet(
            f"{spec.namespace}/{spec.name}", spec.shape, self.nodes.index_requests(spec.shape),
            priority=spec.priority, created_at=now,
        )  # fmt: skip
        members.is_elastic = self._is_autoscaled and spec.max_size > spec.min_size
        job = SimulatedJob(spec, members, staff, now)
        self.jobs.append(job)
        self.live_jobs[job] = None
        for crew in (*staff, members):
            crew.job = job
        for crew, group in zip(staff, spec.fixed_replicas, strict=True):
            if group.count:
                self.pods.create(crew, group.count)
        if size:
            self.pods.create(members, size)
        self.on_change(True)

    def _schedule_service(self, spec: TraceService) -> None:
        crew = PodSet(
            f"{spec.namespace}/{spec.name}", spec.shape, self.nodes.index_requests(spec.shape),
            priority=spec.priority, created_at=spec.replica_steps[0][0],
        )  # fmt: skip
        self.services.append(crew)
        for time, number in spec.replica_steps:
            self.event_queue.schedule(time, self._scale_service, (crew, number))

    def _scale_service(self, scale_request: tuple[PodSet, int]) -> None:
        crew, number = scale_request
        more = number - len(crew.pods)
        if more > 0:
            self.pods.create(crew, more)
        elif more < 0:
            # Those that never ran go first, then the youngest, as a ReplicaSet does it.
            by_worth = sorted(
                crew.pods, key=lambda pod: (pod.state is SimulatedPodState.PENDING, pod.sequence), reverse=True
            )
            self.pods.remove(crew, by_worth[:-more])
        self.on_change(False)

    def resize_job(self, job: SimulatedJob, size: int) -> None:
        """Give a job another size: those with the highest index go first."""
        members = job.replicas
        more = size - len(members.pods)
        job.elastic_group = None
        job.resize_count += 1
        if job.spec.resize_pause:
            job.paused_until = self.event_queue.now + job.spec.resize_pause
        if more > 0:
            self.pods.create(members, more)
        elif more < 0:
            self.pods.remove(members, members.pods[more:])
        self._update_progress(job)
        if job.spec.resize_pause:
            self.event_queue.schedule(job.paused_until, self._resume_job, job)

    def _resume_job(self, job: SimulatedJob) -> None:
        if job.ended_at is None:
            self._update_progress(job)

    def on_pod_set_changed(self, pod_set: PodSet) -> None:
        """Another number of its pods run, or they have other places."""
        job = pod_set.job
        if job is not None and job.ended_at is None:
            if pod_set is job.replicas:
                job.elastic_group = None
                if job.started_at is None and pod_set.running_count:
                    job.started_at = self.event_queue.now
            self._update_progress(job)
        self.on_change(False)

    def on_pods_unschedulable(self, pod_set: PodSet) -> None:
        """Some of its pods fit nowhere."""
        if not pod_set.is_elastic:
            self.pending_pod_sets[pod_set] = None
        self.on_change(True)

    def on_cpu_usage_changed(self, cpu_delta: int) -> None:
        """Pods of so much CPU began to run, or are gone."""
        self.usage.add_cpu(cpu_delta)
        self.on_change(False)

    def on_pod_started(self, pod: SimulatedPod) -> None:
        """One more runs."""
        if pod.pod_set.job is None:
            self.usage.record_service_start(self.event_queue.now - pod.created_at)

    def _update_progress(self, job: SimulatedJob) -> None:
        """Reckon with what a job has done so far, and how fast it is from now on."""
        now = self.event_queue.now
        job.work_left -= job.work_rate * (now - job.updated_at)
        is_paused = now < job.paused_until
        rate = (
            job.spec.throughput.throughput_at(job.replicas.running_count)
            if job.is_making_progress and not is_paused
            else 0.0
        )
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
        for crew in (*job.fixed_pod_sets, job.replicas):
            self.pending_pod_sets.pop(crew, None)
            self.pods.remove(crew, crew.pods)
        self.on_change(False)


class UsageMeter:
    """The CPU in use, exactly and at all times; how long pods of services waited."""

    def __init__(self, event_queue: EventQueue, total_cpu: int) -> None:
        self.used_cpu = 0
        self.total_cpu = total_cpu
        self.started_service_pods = 0
        self.total_service_wait = 0.0
        self.max_service_wait = 0.0
        self._event_queue = event_queue
        self._cpu_seconds = 0.0
        self._updated_at = 0.0

    def add_cpu(self, cpu_delta: int) -> None:
        """So much more is in use from now on, or less if it is below 0."""
        self._update_cpu_seconds()
        self.used_cpu += cpu_delta

    def record_service_start(self, wait: float) -> None:
        """A pod of a service runs after such a wait."""
        self.started_service_pods += 1
        self.total_service_wait += wait
        self.max_service_wait = max(self.max_service_wait, wait)

    @property
    def cpu_seconds(self) -> float:
        """What was in use so far, times the seconds for which it was."""
        self._update_cpu_seconds()
        return self._cpu_seconds

    def _update_cpu_seconds(self) -> None:
        now = self._event_queue.now
        self._cpu_seconds += self.used_cpu * (now - self._updated_at)
        self._updated_at = now
