"""Who is where: every place of a job with its present occupant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from dataclasses import replace as altered
from datetime import datetime
from enum import Enum, auto

from msgspec.structs import replace

from pliant.engine.pods.deletion import is_lost
from pliant.model.framework import Rank
from pliant.model.job import Job, MembershipSource, ReplicaGroup
from pliant.model.labels import normalize_group_name, rank_service_name, replica_pod_name, replica_service_name
from pliant.model.observed import Observed, ObservedPod, PodPhase
from pliant.model.state import EngineState, GroupMember, GroupState, ReplicaOutcome, RestartCause


class ReplicaState(Enum):
    """How things are at one place."""

    ABSENT = auto()
    STALE = auto()
    TERMINATING = auto()
    """Somebody else takes its pod away."""
    DISRUPTED = auto()
    """The cluster has ended its pod: evicted, preempted, shut down."""
    PENDING = auto()
    SCHEDULED = auto()
    RUNNING = auto()
    SUCCEEDED = auto()
    FAILED = auto()
    LOST = auto()
    """Its node is at fault; what the pod does there, if anything, no longer counts."""

    @property
    def has_started(self) -> bool:
        """Whether the member runs, or has run and ended."""
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
    """One rank of a job and whoever occupies it."""

    rank: Rank
    pod_name: str
    """Of its pod."""
    service_name: str
    """Empty if somebody else sees to it."""
    state: ReplicaState
    pod: ObservedPod | None = None

    @property
    def display_name(self) -> str:
        """What people call it: `worker-1`."""
        return f"{normalize_group_name(self.rank.group.name)}-{self.rank.index}"

    @property
    def outcome(self) -> ReplicaOutcome | None:
        """How its work ended, if it has."""
        if self.state is ReplicaState.SUCCEEDED:
            return ReplicaOutcome.SUCCEEDED
        return ReplicaOutcome.FAILED if self.state in (ReplicaState.FAILED, ReplicaState.LOST) else None

    @property
    def failure_cause(self) -> RestartCause:
        """What its failure is put down to: a program that fails on a faulty node is not to blame."""
        return RestartCause.NODE if self.pod is not None and self.pod.node_fault is not None else RestartCause.APP


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Every place of a job, and the pods that have none."""

    all: tuple[Replica, ...]
    orphan_pods: tuple[ObservedPod, ...]

    def in_group(self, group: ReplicaGroup) -> tuple[Replica, ...]:
        """The places of one group, lowest index first."""
        return tuple(place for place in self.all if place.rank.group is group)

    def list_engine_managed(self) -> tuple[Replica, ...]:
        """The places that the engine itself looks after."""
        return tuple(place for place in self.all if place.rank.group.membership_source is MembershipSource.ENGINE)

    def list_failed(self) -> Iterator[Replica]:
        """Places whose member ended badly or was lost, in order."""
        return (place for place in self.all if place.outcome is ReplicaOutcome.FAILED)


def recover_attempts(job: Job, observed: Observed, state: EngineState) -> EngineState:
    """The memory with attempts no lower than the pods': one that was wiped would restart them over and over."""
    latest: dict[str, int] = {}
    for pod in observed.pods:
        latest[pod.group] = max(latest.get(pod.group, 0), pod.attempt)
    behind = {
        group.name: replace(memory, attempt=attempt)
        for group in job.groups
        if (attempt := latest.get(normalize_group_name(group.name), 0)) > (memory := state.group(group.name)).attempt
    }
    return replace(state, groups={**state.groups, **behind}) if behind else state


def match_pods(job: Job, observed: Observed, state: EngineState, now: datetime) -> Replicas:
    """Find the occupant of every place; pods without a place are strays."""
    pods = {pod.name: pod for pod in observed.pods}
    places: list[Replica] = []
    for group in job.groups:
        memory = state.group(group.name)
        if group.membership_source is MembershipSource.MASTER:
            for place in _match_members(job, group, memory, pods):
                is_gone = place.pod is not None and is_lost(place.pod, observed.config, now)
                at_mercy = place.state in _ON_NODE_STATES
                places.append(altered(place, state=ReplicaState.LOST) if is_gone and at_mercy else place)
            continue
        for index in range(group.size):
            name = replica_pod_name(job, group.name, index)
            service = replica_service_name(job, group.name, index)
            rank = Rank(group=group, index=index, attempt=memory.min_attempt(index))
            pod = pods.pop(name, None)
            standing = _compute_state(rank, memory.replica_outcomes.get(index), pod)
            if standing in _ON_NODE_STATES and pod is not None and is_lost(pod, observed.config, now):
                standing = ReplicaState.LOST
            places.append(Replica(rank=rank, pod_name=name, service_name=service, state=standing, pod=pod))
    # What a master made is its own until it is sent away by name.
    return Replicas(all=tuple(places), orphan_pods=_sort_by_name(pod for pod in pods.values() if not pod.is_external))


def _match_members(
    job: Job, group: ReplicaGroup, group_state: GroupState, pods: dict[str, ObservedPod]
) -> list[Replica]:
    """The places of a group that a master looks after: those on the list, and whom it made itself."""
    places = []
    for index, member in sorted(group_state.members.items()):
        rank = Rank(group=group, index=index, attempt=0, member=member)
        name = replica_pod_name(job, group.name, index)
        places.append(_make_replica(rank, pods.pop(name, None), rank_service_name(job, rank), name))
    made = [pod for pod in pods.values() if pod.is_external and pod.group == normalize_group_name(group.name)]
    for pod in _sort_by_name(made):
        del pods[pod.name]
        member = GroupMember(rank=pod.rank if pod.rank >= 0 else pod.index, was_created=True)
        places.append(_make_replica(Rank(group=group, index=pod.index, attempt=0, member=member), pod, "", pod.name))
    return places


def _make_replica(rank: Rank, pod: ObservedPod | None, service_name: str, pod_name: str) -> Replica:
    return Replica(
        rank=rank, pod_name=pod_name, service_name=service_name, state=_compute_state(rank, None, pod), pod=pod
    )


_ON_NODE_STATES = (ReplicaState.SCHEDULED, ReplicaState.RUNNING)


def _compute_state(rank: Rank, recorded_outcome: ReplicaOutcome | None, pod: ObservedPod | None) -> ReplicaState:
    if pod is not None and pod.attempt < rank.attempt:
        return ReplicaState.STALE
    if recorded_outcome is not None:
        return _STATE_BY_OUTCOME[recorded_outcome]
    if pod is None:
        return ReplicaState.ABSENT
    # What a pod does after its deletion began says nothing about the training.
    if pod.is_terminating:
        return ReplicaState.TERMINATING
    return ReplicaState.DISRUPTED if pod.disruption else _STATE_BY_POD_PHASE[pod.phase]


def _sort_by_name(pods: Iterable[ObservedPod]) -> tuple[ObservedPod, ...]:
    return tuple(sorted(pods, key=lambda pod: pod.name))
