"""What a run knows of its jobs: where each group stands, who failed first, who cannot start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pliant.cli.cluster.job_context import natural_sort_key, partition_pods, pod_group, replica_name
from pliant.cli.explain.capacity import find_shortages, shortage_text, total_shortage_text
from pliant.cli.output.progress import GroupProgress, parse_progress
from pliant.controllers.observe import observe
from pliant.engine.pods.replicas import Replica, Replicas, ReplicaState, match_pods
from pliant.engine.sizing import with_applied_sizes
from pliant.kube.objects import Node, Pod
from pliant.model import labels
from pliant.model.job import Job, JobKey, ReplicaGroup
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import EngineState, JobPhase

PERMANENT_WAIT_REASONS = (
    "CreateContainerError",
    "CreateContainerConfigError",
    "RunContainerError",
    "InvalidImageName",
    "ErrImageNeverPull",
)
"""Waits that nothing ends on a cluster where every object has been applied and images are not pulled."""
UNSCHEDULABLE_REASON = "Unschedulable"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatusLine:
    """One group of one job, as a person wants to see it."""

    job: str
    group: str
    phase: str
    running: int
    succeeded: int
    size: int
    restarts: int
    message: str
    progress: GroupProgress | None = None

    @property
    def ready_text(self) -> str:
        """How many run of those wanted, and how many are done: `1/2, 1 done`."""
        if self.succeeded and self.succeeded == self.size:
            return f"{self.succeeded}/{self.size} done"
        return f"{self.running}/{self.size}" + (f", {self.succeeded} done" if self.succeeded else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedReplica:
    """A member that ended badly."""

    job: JobKey
    pod: ObservedPod

    @property
    def replica_name(self) -> str:
        """What people call the member: `worker-1`."""
        return f"{self.pod.group}-{self.pod.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckReplica:
    """A member that does not start, and why."""

    job: JobKey
    replica_name: str
    pod_name: str
    reason: str
    is_permanent: bool


class RunState:
    """Collects what informers report about the jobs of one run."""

    def __init__(self) -> None:
        self._jobs: dict[JobKey, Job] = {}
        self._job_keys_by_uid: dict[str, JobKey] = {}
        self._pods: dict[JobKey, dict[str, Pod]] = {}
        self._failures: dict[str, FailedReplica] = {}
        self._recovered_uids: set[str] = set()
        """Pods that failed and were followed by others; a job forgets them when it shrinks."""
        self._latest_index_by_rank: dict[tuple[JobKey, str, int], int] = {}
        """The latest member at a rank that a master fills again and again."""
        self._nodes: Sequence[Node] = ()
        self._progress: dict[tuple[JobKey, str], GroupProgress] = {}
        self._deleted_jobs: set[JobKey] = set()

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every job of the run, in the order written."""
        return tuple(self._jobs.values())

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        """Note which nodes there are; they do not change during a run."""
        self._nodes = nodes

    def resource_shortages(self) -> Iterator[str]:
        """What jobs want more of than there is, though each of their members would fit."""
        for job in self._jobs.values():
            is_hopeless = any(find_shortages(group.template, self._nodes) for group in job.groups)
            if not is_hopeless and (lack := total_shortage_text(job.groups, self._nodes)):
                yield f"{job.key.name}: {lack}"

    def update_job(self, job: Job) -> None:
        """Note how a job is now."""
        self._jobs[job.key] = job
        self._job_keys_by_uid[job.owner.uid] = job.key
        self._pods.setdefault(job.key, {})
        self._recovered_uids |= {
            uid for uid, loss in self._failures.items() if loss.job == job.key and _was_restarted(job, loss.pod)
        }

    def mark_job_deleted(self, job_uid: str) -> JobKey | None:
        """Note that a job was deleted; which one it was, if it is one of this run and had not ended."""
        key = self._job_keys_by_uid.get(job_uid)
        if key is None or self._is_job_finished(self._jobs[key]):
            return None
        self._deleted_jobs.add(key)
        return key

    def record_progress(self, pod: Pod, log_line: str) -> bool:
        """Note what a line reports about the progress of a group; False if it reports nothing."""
        job = self.owning_job(pod)
        if job is None:
            return False
        place = (job.key, pod_group(job, pod))
        progress = parse_progress(log_line, self._progress.get(place))
        if progress is not None:
            self._progress[place] = progress
        return progress is not None

    def group_progress(self, job: Job, group: ReplicaGroup) -> GroupProgress | None:
        """How far a group said it has come."""
        return self._progress.get((job.key, labels.normalize_group_name(group.name)))

    def was_deleted(self, job: Job) -> bool:
        """Whether somebody deleted a job before it had ended."""
        return job.key in self._deleted_jobs

    def update_pod(self, pod: Pod) -> None:
        """Note how a pod is now; pods of other owners are ignored."""
        job = self.owning_job(pod)
        if job is None:
            return
        self._pods[job.key][pod.metadata.name] = pod
        seen = observe(job, partition_pods(job, (pod,))).pods[0]
        if seen.rank >= 0:
            rank = (job.key, seen.group, seen.rank)
            self._latest_index_by_rank[rank] = max(seen.index, self._latest_index_by_rank.get(rank, 0))
        if seen.phase is PodPhase.FAILED and not seen.is_terminating:
            self._failures.setdefault(seen.uid, FailedReplica(job=job.key, pod=seen))

    def remove_pod(self, pod: Pod) -> None:
        """Note that a pod is gone."""
        job = self.owning_job(pod)
        if job is not None:
            self._pods[job.key].pop(pod.metadata.name, None)

    def owning_job(self, pod: Pod) -> Job | None:
        """The job of this run that a pod belongs to."""
        for owner in pod.metadata.owner_references:
            if (key := self._job_keys_by_uid.get(owner.uid)) is not None:
                return self._jobs[key]
        return None

    def pods_of_group(self, group_line: GroupStatusLine) -> list[Pod]:
        """The pods of a group, by name."""
        group = labels.normalize_group_name(group_line.group)
        mine = ((self._jobs[key], pods) for key, pods in self._pods.items() if key.name == group_line.job)
        found = [pod for job, pods in mine for pod in pods.values() if pod_group(job, pod) == group]
        return sorted(found, key=lambda pod: natural_sort_key(pod.metadata.name))

    def expected_log_prefixes(self) -> Iterator[str]:
        """The names that will stand before log lines, one per member."""
        for job in self._jobs.values():
            for group in job.groups:
                for index in range(group.size):
                    name = labels.replica_pod_name(job, group.name, index)
                    yield self._short_name(job, name, f"{labels.normalize_group_name(group.name)}-{index}")

    def log_prefix(self, pod: Pod) -> str:
        """How a member is named before its log lines: short, but never ambiguous."""
        job = self.owning_job(pod)
        return self._short_name(job, pod.metadata.name, replica_name(job, pod))

    def _short_name(self, job: Job | None, pod_name: str, title: str) -> str:
        if job is not None and job.has_master:  # its pods have long names
            return title if len(self._jobs) == 1 else f"{job.key.name}-{title}"
        return pod_name.removeprefix(f"{next(iter(self._jobs)).name}-") if len(self._jobs) == 1 else pod_name

    def group_lines(self) -> list[GroupStatusLine]:
        """One line per group, in the order written."""
        rosters = [(job, self._match_replicas(job)) for job in self._jobs.values()]
        return [
            replace(_group_status_line(job, group, roster), progress=self.group_progress(job, group))
            for job, roster in rosters
            for group in job.groups
            # A master may have use for groups that nobody wrote down; until then they are no news.
            if group.size or roster.in_group(group) or not job.has_master
        ]

    def is_finished(self) -> bool:
        """Whether every job has reached its end."""
        return all(self._is_job_finished(job) for job in self._jobs.values())

    def _is_job_finished(self, job: Job) -> bool:
        return job.key in self._deleted_jobs or (job.state is not None and job.state.phase.is_final)

    def stuck_replicas(self) -> Iterator[StuckReplica]:
        """Members that do not start, of jobs that have not ended."""
        for job in self._jobs.values():
            if job.state is not None and job.state.phase.is_final:
                continue
            for place in self._match_replicas(job).all:
                if place.pod is not None and place.pod.problem and not place.state.has_started:
                    yield self._to_stuck_replica(job, place, place.pod.problem)

    def root_cause(self, job: Job) -> FailedReplica | None:
        """The failure that began the job's end: the earliest that was not mended by a restart."""
        losses = [loss for loss in self._failures.values() if loss.job == job.key]
        return next(iter(self.unrecovered_failures(job)), losses[-1] if losses else None)

    def unrecovered_failures(self, job: Job) -> list[FailedReplica]:
        """Members that ended badly and were not restarted, the earliest first."""
        losses = (loss for loss in self._failures.values() if loss.job == job.key and not self._was_replaced(loss))
        return [
            loss for loss in losses if loss.pod.uid not in self._recovered_uids and not _was_restarted(job, loss.pod)
        ]

    def _was_replaced(self, failure: FailedReplica) -> bool:
        """Whether another has taken over its rank since, by the word of the job's master."""
        pod = failure.pod
        return self._latest_index_by_rank.get((failure.job, pod.group, pod.rank), pod.index) > pod.index

    def _to_stuck_replica(self, job: Job, replica: Replica, reason: str) -> StuckReplica:
        is_hopeless = reason.startswith(PERMANENT_WAIT_REASONS)
        if reason.startswith(UNSCHEDULABLE_REASON) and (
            lacks := find_shortages(replica.rank.group.template, self._nodes)
        ):
            reason, is_hopeless = shortage_text(lacks), True
        return StuckReplica(
            job=job.key,
            replica_name=replica.display_name,
            pod_name=replica.pod_name,
            reason=reason,
            is_permanent=is_hopeless,
        )

    def _match_replicas(self, job: Job) -> Replicas:
        state = job.state or _initial_state(job)
        seen = observe(job, partition_pods(job, self._pods[job.key].values()))
        return match_pods(with_applied_sizes(job, state), seen, state, job.created_at)


def group_restarts(job: Job, group: ReplicaGroup) -> int:
    """How often members of a group were restarted."""
    return job.state.group(group.name).charged_restarts if job.state else 0


def _initial_state(job: Job) -> EngineState:
    return EngineState(phase=JobPhase.PENDING, started_at=job.created_at)


def _group_status_line(job: Job, group: ReplicaGroup, replicas: Replicas) -> GroupStatusLine:
    state = job.state or _initial_state(job)
    places = replicas.in_group(group)
    running = sum(place.state is ReplicaState.RUNNING for place in places)
    done = sum(place.state is ReplicaState.SUCCEEDED for place in places)
    phase = "Succeeded" if places and done == len(places) and not state.phase.is_final else str(state.phase)
    troubles = [f"{place.display_name}: {place.pod.problem}" for place in places if place.pod and place.pod.problem]
    return GroupStatusLine(
        job=job.key.name,
        group=group.name,
        phase=phase,
        running=running,
        succeeded=done,
        size=group.size,
        restarts=group_restarts(job, group),
        message=troubles[0] if troubles else state.message,
    )


def _was_restarted(job: Job, pod: ObservedPod) -> bool:
    """Whether a later attempt was decided for the place where this pod failed."""
    if job.state is None:
        return False
    group = next((group for group in job.groups if labels.normalize_group_name(group.name) == pod.group), None)
    return group is not None and pod.attempt < job.state.group(group.name).min_attempt(pod.index)
