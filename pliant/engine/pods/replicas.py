"""The replicas of a job, each matched with its observed pod."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from msgspec.structs import replace

from pliant.model.framework import Rank
from pliant.model.job import Job, ReplicaGroup
from pliant.model.labels import normalize_group_name
from pliant.model.observed import Observed, ObservedPod, PodPhase
from pliant.model.state import EngineState, ReplicaOutcome, RestartCause


class ReplicaState(Enum):
    ABSENT = auto()
    STALE = auto()
    TERMINATING = auto()
    """The pod is being deleted, but not by the engine."""
    DISRUPTED = auto()
    """The cluster has evicted, preempted or shut down the pod."""
    PENDING = auto()
    SCHEDULED = auto()
    RUNNING = auto()
    SUCCEEDED = auto()
    FAILED = auto()
    LOST = auto()
    """The node is faulty; the status of the pod no longer counts."""

    @property
    def has_started(self) -> bool:
        return self in (ReplicaState.RUNNING, ReplicaState.SUCCEEDED, ReplicaState.FAILED)


_STATE_BY_POD_PHASE = {
    PodPhase.PENDING: ReplicaState.PENDING,
    PodPhase.SCHEDULED: ReplicaState.SCHEDULED,
    PodPhase.RUNNING: ReplicaState.RUNNING,
    PodPhase.SUCCEEDED: ReplicaState.SUCCEEDED,
    PodPhase.FAILED: ReplicaState.FAILED,
}
_STATE_BY_OUTCOME = {ReplicaOutcome.SUCCEEDED: ReplicaState.SUCCEEDED, ReplicaOutcome.FAILED: ReplicaState.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    rank: Rank
    pod_name: str
    service_name: str
    """Empty if it has no service of its own, or if the job's master creates the service."""
    state: ReplicaState
    pod: ObservedPod | None = None

    @property
    def display_name(self) -> str:
        """The name in messages: `worker-1`."""
        return f"{normalize_group_name(self.rank.group.name)}-{self.rank.index}"

    @property
    def outcome(self) -> ReplicaOutcome | None:
        if self.state is ReplicaState.SUCCEEDED:
            return ReplicaOutcome.SUCCEEDED
        return ReplicaOutcome.FAILED if self.state in (ReplicaState.FAILED, ReplicaState.LOST) else None

    @property
    def is_disrupted_by_node(self) -> bool:
        """Whether the replica ended because its node was shut down or restarted."""
        return self.state is ReplicaState.DISRUPTED and self.pod is not None and self.pod.is_disrupted_by_node

    @property
    def failure_cause(self) -> RestartCause:
        """The cause of a failure; one on a faulty node is attributed to the node."""
        return RestartCause.NODE if self.pod is not None and self.pod.node_fault is not None else RestartCause.APP


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """All replicas of a job, and the pods that belong to none."""

    all: tuple[Replica, ...]
    orphan_pods: tuple[ObservedPod, ...]

    def in_group(self, group: ReplicaGroup) -> tuple[Replica, ...]:
        return tuple(replica for replica in self.all if replica.rank.group is group)

    def list_training(self) -> tuple[Replica, ...]:
        """Return the replicas of the groups of the spec."""
        return tuple(each for each in self.all if not each.rank.group.is_control)

    def list_engine_managed(self) -> tuple[Replica, ...]:
        return tuple(each for each in self.all if not each.rank.group.is_master_managed)

    def list_failed(self) -> Iterator[Replica]:
        """Return the failed and lost replicas in order."""
        return (replica for replica in self.all if replica.outcome is ReplicaOutcome.FAILED)


def raise_attempts_to_observed(job: Job, observed: Observed, state: EngineState) -> EngineState:
    """Raise the attempts to those of the observed pods: after a loss of state the pods would restart in a loop."""
    latest: dict[str, int] = {}
    for pod in observed.pods:
        latest[pod.group] = max(latest.get(pod.group, 0), pod.attempt)
    behind = {
        group.name: replace(state.group(group.name), attempt=attempt)
        for group in job.groups
        if (attempt := latest.get(normalize_group_name(group.name), 0)) > state.group(group.name).attempt
    }
    return replace(state, groups={**state.groups, **behind}) if behind else state


def compute_state(rank: Rank, recorded_outcome: ReplicaOutcome | None, pod: ObservedPod | None) -> ReplicaState:
    if pod is not None and pod.attempt < rank.attempt:
        return ReplicaState.STALE
    if recorded_outcome is not None:
        return _STATE_BY_OUTCOME[recorded_outcome]
    if pod is None:
        return ReplicaState.ABSENT
    # The exit of a terminating pod says nothing about the training.
    if pod.is_terminating:
        return ReplicaState.TERMINATING
    return ReplicaState.DISRUPTED if pod.disruption else _STATE_BY_POD_PHASE[pod.phase]
