"""Tracks the jobs and pods of a run: status of groups, root causes, replicas that cannot start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pliant.cli.cluster.job_context import (
    initial_state,
    match_job_pods,
    natural_sort_key,
    replica_group_of,
    replica_index_of,
    replica_name,
    separate_master_created_pods,
)
from pliant.cli.explain.capacity import (
    UNSCHEDULABLE_REASON,
    find_permanent_shortages,
    shortage_text,
    total_shortage_text,
)
from pliant.cli.explain.failure_hints import LocalPrograms
from pliant.cli.local.progress_trend import NO_TREND, ProgressTrend, RunProgress
from pliant.cli.output.progress import TrainingProgress
from pliant.controllers.observe import observe
from pliant.engine.plans.membership import job_in_effect
from pliant.engine.pods.replicas import Replica, Replicas, ReplicaState
from pliant.engine.status.messages import start_problems
from pliant.kube.objects import Node, Pod
from pliant.model import labels
from pliant.model.job import Job, JobKey, ReplicaGroup
from pliant.model.messages import Message
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import EngineState

# permanent in a run: all objects are applied before, and images are not pulled
PERMANENT_WAIT_REASONS = (
    "CreateContainerError",
    "CreateContainerConfigError",
    "RunContainerError",
    "InvalidImageName",
    "ErrImageNeverPull",
    "MountVolume.SetUp failed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatusLine:
    """The status of a group of a job; the phase is that of the job."""

    job: str
    group: str
    phase: str
    running: int
    succeeded: int
    size: int
    restarts: int
    message: Message
    failed: int = 0  # replicas that failed for good
    progress: TrainingProgress | None = None
    trend: ProgressTrend = NO_TREND
    summary: str = ""  # replica counts of several groups, if the line stands for them

    @property
    def is_complete(self) -> bool:
        """Whether all replicas run or have succeeded."""
        return self.running + self.succeeded >= self.size and not self.failed

    @property
    def replica_counts_text(self) -> str:
        """How many replicas run and how many have succeeded: `1/2, 1 done`."""
        if self.succeeded and self.succeeded == self.size:
            return f"{self.succeeded}/{self.size} done"
        return f"{self.running}/{self.size}" + (f", {self.succeeded} done" if self.succeeded else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedReplica:
    """A replica whose pod failed."""

    job: JobKey
    pod: ObservedPod

    @property
    def replica_name(self) -> str:
        return f"{self.pod.group}-{self.pod.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckReplica:
    """A replica that does not start, and why."""

    job: JobKey
    replica_name: str
    pod_name: str
    reason: str
    is_permanent: bool


class RunState:
    """Collects what informers report about the jobs of a run."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = RunProgress(clock)
        self._jobs: dict[JobKey, Job] = {}
        self._states: dict[JobKey, EngineState | None] = {}
        self._job_keys_by_uid: dict[str, JobKey] = {}
        self._pods: dict[JobKey, dict[str, Pod]] = {}
        self._failures: dict[str, FailedReplica] = {}
        self._recovered_uids: set[str] = set()  # failed pods that were restarted; a job that shrinks forgets them
        # the latest replica of each rank, for jobs whose master reuses ranks
        self._latest_index_by_rank: dict[tuple[JobKey, str, int], int] = {}
        self._nodes: Sequence[Node] = ()
        self._deleted_jobs: set[JobKey] = set()

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(self._jobs.values())

    def state_of(self, job: Job) -> EngineState | None:
        """Return the stored state of a job; None if the operator has not reconciled it yet."""
        return self._states[job.key]

    def job_in_effect(self, job: Job) -> Job:
        state = self.state_of(job)
        return job_in_effect(job, state) if state else job

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes

    def local_programs(self, job: Job) -> LocalPrograms | None:
        """Return where the programs of a job are found; None if the cluster is not local."""
        local = LocalPrograms.of_nodes(self._nodes)
        return local.for_job(job) if local is not None else None

    def total_shortage_texts(self) -> Iterator[str]:
        """Yield jobs that request more in total than the nodes have, though each replica fits."""
        for job in self._jobs.values():
            fits = not any(find_permanent_shortages(group.template, self._nodes) for group in job.groups)
            if fits and (shortage := total_shortage_text(job.groups, self._nodes)):
                yield f"{job.key.name}: {shortage}"

    def update_job(self, job: Job, state: EngineState | None) -> None:
        self._jobs[job.key] = job
        self._states[job.key] = state
        self._job_keys_by_uid[job.owner.uid] = job.key
        self._pods.setdefault(job.key, {})
        self._recovered_uids |= {
            uid
            for uid, failure in self._failures.items()
            if failure.job == job.key and _was_restarted(job, state, failure.pod)
        }

    def mark_job_deleted(self, job_uid: str) -> JobKey | None:
        """Record the deletion of a job; return its key if it belongs to the run and had not ended."""
        key = self._job_keys_by_uid.get(job_uid)
        if key is None or self._is_job_finished(self._jobs[key]):
            return None
        self._deleted_jobs.add(key)
        return key

    def record_progress_from_log(self, pod: Pod, log_line: str) -> bool:
        """Record the progress that a log line reports; return whether it reports any."""
        job = self.owning_job(pod)
        if job is None:
            return False
        index = replica_index_of(job, pod)
        rank = int(index) if index.isdigit() else 0
        return self._progress.record_line(job.key, replica_group_of(job, pod), rank, log_line)

    def progress_from_logs(self, job: Job, group: ReplicaGroup) -> TrainingProgress | None:
        return self._progress.latest(job.key, labels.normalize_group_name(group.name))

    def was_deleted(self, job: Job) -> bool:
        return job.key in self._deleted_jobs

    def update_pod(self, pod: Pod) -> None:
        """Record the state of a pod; ignore pods of other owners."""
        job = self.owning_job(pod)
        if job is None:
            return
        self._pods[job.key][pod.metadata.name] = pod
        observed = observe(job, separate_master_created_pods(job, (pod,))).pods[0]
        if observed.rank >= 0:
            rank = (job.key, observed.group, observed.rank)
            self._latest_index_by_rank[rank] = max(observed.index, self._latest_index_by_rank.get(rank, 0))
        if observed.phase is PodPhase.FAILED and not observed.is_terminating:
            self._failures.setdefault(observed.uid, FailedReplica(job=job.key, pod=observed))

    def has_object(self, uid: str) -> bool:
        """Return whether a job or a pod of the run has this UID."""
        pods = (pod for pods in self._pods.values() for pod in pods.values())
        return uid in self._job_keys_by_uid or any(pod.metadata.uid == uid for pod in pods)

    def remove_pod(self, pod: Pod) -> None:
        job = self.owning_job(pod)
        if job is not None:
            self._pods[job.key].pop(pod.metadata.name, None)

    def owning_job(self, pod: Pod) -> Job | None:
        for owner in pod.metadata.owner_references:
            if (key := self._job_keys_by_uid.get(owner.uid)) is not None:
                return self._jobs[key]
        return None

    def pods_of_group(self, group_line: GroupStatusLine) -> list[Pod]:
        group = labels.normalize_group_name(group_line.group)
        jobs = ((self._jobs[key], pods) for key, pods in self._pods.items() if key.name == group_line.job)
        found = [pod for job, pods in jobs for pod in pods.values() if replica_group_of(job, pod) == group]
        return sorted(found, key=lambda pod: natural_sort_key(pod.metadata.name))

    def expected_log_prefixes(self) -> Iterator[str]:
        """Yield the log prefix of each replica in the spec."""
        for job in self._jobs.values():
            for group in job.groups:
                for index in group.indexes:
                    name = labels.replica_pod_name(job, group.name, index)
                    yield self._short_name(job, name, f"{labels.normalize_group_name(group.name)}-{index}")

    def log_prefix(self, pod: Pod) -> str:
        """Return the shortest unambiguous name of the replica of a pod."""
        job = self.owning_job(pod)
        return self._short_name(job, pod.metadata.name, replica_name(job, pod))

    def _short_name(self, job: Job | None, pod_name: str, replica: str) -> str:
        if job is not None and job.master is not None:  # the pod names of its kind are long
            return replica if len(self._jobs) == 1 else f"{job.key.name}-{replica}"
        return pod_name.removeprefix(f"{next(iter(self._jobs)).name}-") if len(self._jobs) == 1 else pod_name

    def group_lines(self) -> list[GroupStatusLine]:
        matched = [(job, self._match_replicas(job)) for job in map(self.job_in_effect, self._jobs.values())]
        return [
            self._group_status_line(job, group, replicas)
            for job, replicas in matched
            for group in job.groups
            # A master may use groups that the spec leaves empty; they are shown once they have replicas.
            if group.size or replicas.in_group(group) or job.master is None
        ]

    def are_all_jobs_finished(self) -> bool:
        return all(self._is_job_finished(job) for job in self._jobs.values())

    def _is_job_finished(self, job: Job) -> bool:
        return self.was_deleted(job) or self.has_final_phase(job)

    def has_final_phase(self, job: Job) -> bool:
        state = self.state_of(job)
        return state is not None and state.phase.is_final

    def stuck_replicas(self) -> Iterator[StuckReplica]:
        """Yield the replicas of unfinished jobs that do not start."""
        for job in self._jobs.values():
            if self.has_final_phase(job):
                continue
            for replica in self._match_replicas(self.job_in_effect(job)).all:
                if replica.pod is not None and replica.pod.start_problem and not replica.state.has_started:
                    yield self._to_stuck_replica(job, replica, replica.pod.start_problem)

    def root_cause(self, job: Job) -> FailedReplica | None:
        """Return the recorded root cause; if there is none, the earliest failure that no restart recovered."""
        failures = [failure for failure in self._failures.values() if failure.job == job.key]
        state = self.state_of(job)
        if state is not None and (cause := state.root_cause) is not None:
            named = (
                each for each in failures if (each.replica_name, each.pod.attempt) == (cause.replica, cause.attempt)
            )
            return next(named, None)
        return next(iter(self.unrecovered_failures(job)), failures[-1] if failures else None)

    def unrecovered_failures(self, job: Job) -> list[FailedReplica]:
        """Return the failures that no restart recovered, the earliest first."""
        return [
            failure
            for failure in self._failures.values()
            if failure.job == job.key
            and not self._was_replaced(failure)
            and failure.pod.uid not in self._recovered_uids
            and not _was_restarted(job, self.state_of(job), failure.pod)
        ]

    def _was_replaced(self, failure: FailedReplica) -> bool:
        """Return whether the master of the job has given the rank to another replica."""
        pod = failure.pod
        return self._latest_index_by_rank.get((failure.job, pod.group, pod.rank), pod.index) > pod.index

    def _to_stuck_replica(self, job: Job, replica: Replica, reason: str) -> StuckReplica:
        is_permanent = reason.startswith(PERMANENT_WAIT_REASONS)
        shortages = find_permanent_shortages(replica.rank.group.template, self._nodes)
        if shortages and reason.startswith(UNSCHEDULABLE_REASON):
            reason, is_permanent = shortage_text(shortages), True
        name, pod_name = replica.display_name, replica.pod_name
        return StuckReplica(job=job.key, replica_name=name, pod_name=pod_name, reason=reason, is_permanent=is_permanent)

    def _match_replicas(self, job: Job) -> Replicas:
        """Match the replicas of a job in effect with its pods."""
        return match_job_pods(job, self.state_of(job), self._pods[job.key].values(), job.created_at)

    def _group_status_line(self, job: Job, group: ReplicaGroup, replicas: Replicas) -> GroupStatusLine:
        state = self.state_of(job) or initial_state(job)
        in_group = replicas.in_group(group)
        running = sum(replica.state is ReplicaState.RUNNING for replica in in_group)
        done = sum(replica.state is ReplicaState.SUCCEEDED for replica in in_group)
        problems = start_problems(in_group)
        counts = state.replica_counts.get(group.name)
        return GroupStatusLine(
            job=job.key.name,
            group=group.name,
            phase=str(state.phase),
            running=running,
            succeeded=done,
            size=group.size,
            restarts=state.group(group.name).restarts_without_disruptions,
            message=problems[0] if problems else state.message,
            failed=counts.failed if counts is not None and job.master is None else 0,
            progress=self.progress_from_logs(job, group),
            trend=self._progress.trend(job.key, labels.normalize_group_name(group.name)),
        )


def _was_restarted(job: Job, state: EngineState | None, pod: ObservedPod) -> bool:
    """Return whether the operator has started a later attempt of the replica."""
    group = next((group for group in job.groups if labels.normalize_group_name(group.name) == pod.group), None)
    return state is not None and group is not None and pod.attempt < state.group(group.name).min_attempt(pod.index)
