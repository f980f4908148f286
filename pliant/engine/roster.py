"""Who is where: every place of a job with its present occupant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from dataclasses import replace as altered
from datetime import datetime
from enum import Enum, auto

from msgspec.structs import replace

from pliant.engine.departure import is_lost
from pliant.model.framework import Rank
from pliant.model.job import Group, Job, Steward
from pliant.model.labels import member_group, member_name, rank_service, service_name
from pliant.model.observed import ObservedPod, PodPhase, Seen
from pliant.model.state import Cause, EngineState, GroupState, Member, Outcome


class Standing(Enum):
    """How things are at one place."""

    ABSENT = auto()
    STALE = auto()
    LEAVING = auto()
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
    def is_up(self) -> bool:
        """Whether the member runs, or has run and ended."""
        return self in (Standing.RUNNING, Standing.SUCCEEDED, Standing.FAILED)


_STANDING_OF_POD = {
    PodPhase.PENDING: Standing.PENDING,
    PodPhase.SCHEDULED: Standing.SCHEDULED,
    PodPhase.RUNNING: Standing.RUNNING,
    PodPhase.SUCCEEDED: Standing.SUCCEEDED,
    PodPhase.FAILED: Standing.FAILED,
}
_STANDING_OF_OUTCOME = {Outcome.SUCCEEDED: Standing.SUCCEEDED, Outcome.FAILED: Standing.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One rank of a job and whoever occupies it."""

    rank: Rank
    name: str
    """Of its pod."""
    service: str
    """Empty if somebody else sees to it."""
    standing: Standing
    pod: ObservedPod | None = None

    @property
    def title(self) -> str:
        """What people call it: `worker-1`."""
        return f"{member_group(self.rank.group.name)}-{self.rank.index}"

    @property
    def outcome(self) -> Outcome | None:
        """How its work ended, if it has."""
        if self.standing is Standing.SUCCEEDED:
            return Outcome.SUCCEEDED
        return Outcome.FAILED if self.standing in (Standing.FAILED, Standing.LOST) else None

    @property
    def cause(self) -> Cause:
        """What its failure is put down to: a program that fails on a faulty node is not to blame."""
        return Cause.NODE if self.pod is not None and self.pod.fault is not None else Cause.APP


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """Every place of a job, and the pods that have none."""

    places: tuple[Place, ...]
    strays: tuple[ObservedPod, ...]

    def of(self, group: Group) -> tuple[Place, ...]:
        """The places of one group, lowest index first."""
        return tuple(place for place in self.places if place.rank.group is group)

    def steady(self) -> tuple[Place, ...]:
        """The places that the engine itself looks after."""
        return tuple(place for place in self.places if place.rank.group.steward is Steward.ENGINE)

    def failed(self) -> Iterator[Place]:
        """Places whose member ended badly or was lost, in order."""
        return (place for place in self.places if place.outcome is Outcome.FAILED)


def abreast(job: Job, seen: Seen, state: EngineState) -> EngineState:
    """The memory with attempts no lower than the pods': one that was wiped would restart them over and over."""
    latest: dict[str, int] = {}
    for pod in seen.pods:
        latest[pod.group] = max(latest.get(pod.group, 0), pod.attempt)
    behind = {
        group.name: replace(memory, attempt=attempt)
        for group in job.groups
        if (attempt := latest.get(member_group(group.name), 0)) > (memory := state.group(group.name)).attempt
    }
    return replace(state, groups={**state.groups, **behind}) if behind else state


def call_the_roll(job: Job, seen: Seen, state: EngineState, now: datetime) -> Roster:
    """Find the occupant of every place; pods without a place are strays."""
    pods = {pod.name: pod for pod in seen.pods}
    places: list[Place] = []
    for group in job.groups:
        memory = state.group(group.name)
        if group.steward is Steward.MASTER:
            for place in _listed(job, group, memory, pods):
                is_gone = place.pod is not None and is_lost(place.pod, seen.rules, now)
                at_mercy = place.standing in _AT_THE_MERCY_OF_NODES
                places.append(altered(place, standing=Standing.LOST) if is_gone and at_mercy else place)
            continue
        for index in range(group.size):
            name = member_name(job, group.name, index)
            service = service_name(job, group.name, index)
            rank = Rank(group=group, index=index, attempt=memory.wanted_attempt(index))
            pod = pods.pop(name, None)
            standing = _standing(rank, memory.finished.get(index), pod)
            if standing in _AT_THE_MERCY_OF_NODES and pod is not None and is_lost(pod, seen.rules, now):
                standing = Standing.LOST
            places.append(Place(rank=rank, name=name, service=service, standing=standing, pod=pod))
    # What a master made is its own until it is sent away by name.
    return Roster(places=tuple(places), strays=_in_order(pod for pod in pods.values() if not pod.is_foreign))


def _listed(job: Job, group: Group, memory: GroupState, pods: dict[str, ObservedPod]) -> list[Place]:
    """The places of a group that a master looks after: those on the list, and whom it made itself."""
    places = []
    for index, member in sorted(memory.members.items()):
        rank = Rank(group=group, index=index, attempt=0, member=member)
        name = member_name(job, group.name, index)
        places.append(_held(rank, pods.pop(name, None), rank_service(job, rank), name))
    made = [pod for pod in pods.values() if pod.is_foreign and pod.group == member_group(group.name)]
    for pod in _in_order(made):
        del pods[pod.name]
        member = Member(rank=pod.rank if pod.rank >= 0 else pod.index, is_made=True)
        places.append(_held(Rank(group=group, index=pod.index, attempt=0, member=member), pod, "", pod.name))
    return places


def _held(rank: Rank, pod: ObservedPod | None, service: str, name: str) -> Place:
    return Place(rank=rank, name=name, service=service, standing=_standing(rank, None, pod), pod=pod)


_AT_THE_MERCY_OF_NODES = (Standing.SCHEDULED, Standing.RUNNING)


def _standing(rank: Rank, remembered: Outcome | None, pod: ObservedPod | None) -> Standing:
    if pod is not None and pod.attempt < rank.attempt:
        return Standing.STALE
    if remembered is not None:
        return _STANDING_OF_OUTCOME[remembered]
    if pod is None:
        return Standing.ABSENT
    # What a pod does after its deletion began says nothing about the training.
    if pod.is_leaving:
        return Standing.LEAVING
    return Standing.DISRUPTED if pod.disruption else _STANDING_OF_POD[pod.phase]


def _in_order(pods: Iterable[ObservedPod]) -> tuple[ObservedPod, ...]:
    return tuple(sorted(pods, key=lambda pod: pod.name))
