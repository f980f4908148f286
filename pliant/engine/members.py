"""Groups that a master looks after: who belongs to them is a list, kept true to the pods that are seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from pliant.engine.roster import Place, Standing
from pliant.model.job import Group, Job, Steward
from pliant.model.labels import member_group, member_name
from pliant.model.observed import ObservedPod, Seen
from pliant.model.state import EngineState, GroupState, Member

OWN_MASTER = "own_master"
"""The option of a job that says whether its master is ours: it knows who was sent away, and who came."""
FAR = 100
LEAP = 1_000_000
"""How far ids may go beyond the next one."""
OUT = (Standing.FAILED, Standing.LOST, Standing.LEAVING, Standing.DISRUPTED)
"""Those who hold a rank no longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of a group: who is listed from now on, and which pods of others have to go."""

    memory: GroupState
    added: tuple[int, ...] = ()
    """The ids of newcomers."""
    removals: tuple[str, ...] = ()
    """The uids of pods that a master made and that have to go."""

    def then(self, other: Change) -> Change:
        """This, and after it another."""
        return Change(
            memory=other.memory,
            added=(*(index for index in self.added if index in other.memory.members), *other.added),
            removals=(*self.removals, *other.removals),
        )


def with_members(job: Job, seen: Seen, state: EngineState) -> EngineState:
    """The memory with the lists kept true: who was there and is not has left, and is made again by nobody."""
    groups = {
        group.name: _kept_true(job, group, state.group(group.name), seen.pods)
        for group in job.groups
        if group.steward is Steward.MASTER
    }
    return replace(state, groups={**state.groups, **groups}) if groups else state


def resized_list(memory: GroupState, places: Iterable[Place], size: int, *, apart: int = 0) -> Change:
    """As many members as wanted: newcomers at the lowest free ranks, the highest ranks go first.

    Ids of newcomers may be kept apart from those that a master would give next.
    """
    alive = {place.rank.index: place for place in places if place.standing not in OUT}
    by_rank: dict[int, list[Place]] = {}
    for place in alive.values():
        by_rank.setdefault(rank_of(place), []).append(place)
    surplus = sorted(by_rank, reverse=True)[: max(len(by_rank) - size, 0)]
    change = sent_away(memory, [place for rank in surplus for place in by_rank[rank]])
    free = (rank for rank in range(size + len(by_rank)) if rank not in by_rank)
    newcomers = [Member(rank=next(free), resource=memory.resource) for _ in range(size - len(by_rank))]
    return change.then(joined(change.memory, newcomers, apart)) if newcomers else change


def sent_away(memory: GroupState, places: Iterable[Place]) -> Change:
    """Without these members."""
    leaving = list(places)
    ids = {place.rank.index for place in leaving}
    foreign = [place.pod.uid for place in leaving if place.pod is not None and place.pod.is_foreign]
    members = {index: member for index, member in memory.members.items() if index not in ids}
    kept = {member.rank for member in members.values()}
    left = {rank_of(place) for place in leaving} - kept
    holders = {rank: times for rank, times in memory.holders.items() if rank not in left}
    return Change(memory=replace(memory, members=members, holders=holders), removals=tuple(foreign))


def apart_from_master(options: Mapping[str, object], *, is_by_hand: bool) -> int:
    """How far ids of newcomers are kept from those of a master that is not ours, and does not know of them yet."""
    return FAR if is_by_hand and not options.get(OWN_MASTER) else 0


def joined(memory: GroupState, members: Iterable[Member], apart: int = 0) -> Change:
    """With these members more, at the next ids."""
    first = memory.next_id + (apart if memory.next_id else 0)
    fresh = dict(enumerate(members, first))
    after = replace(
        memory,
        members={**memory.members, **fresh},
        holders={**memory.holders, **{member.rank: member.relaunches for member in fresh.values()}},
        next_id=first + len(fresh),
    )
    return Change(memory=after, added=tuple(fresh))


def rank_of(place: Place) -> int:
    """The rank that a member holds, which is not its id."""
    return place.rank.member.rank if place.rank.member else place.rank.index


def _kept_true(job: Job, group: Group, memory: GroupState, pods: Iterable[ObservedPod]) -> GroupState:
    of_group = [pod for pod in pods if pod.group == member_group(group.name)]
    there = {pod.name for pod in of_group if not pod.is_foreign}
    listed = memory.members or _adopted(memory, of_group)
    members: dict[int, Member] = {}
    for index, member in listed.items():
        if member_name(job, group.name, index) in there:
            members[index] = member if member.is_made else replace(member, is_made=True)
        elif not member.is_made:
            members[index] = member
    # Labels may say anything, and an id is used once: whoever leaps would leave none for those who come.
    next_id = max([memory.next_id, *(pod.index + 1 for pod in of_group if pod.index < memory.next_id + LEAP)])
    if (members, next_id) == (memory.members, memory.next_id):
        return memory
    return replace(memory, members=members, next_id=next_id)


def _adopted(memory: GroupState, pods: Iterable[ObservedPod]) -> Mapping[int, Member]:
    """Who is there although nobody is known to have been: the memory was lost, and the pods were not."""
    if memory.next_id:
        return memory.members
    return {
        pod.index: Member(rank=pod.rank if pod.rank >= 0 else pod.index, is_made=True)
        for pod in pods
        if not pod.is_foreign and pod.index >= 0
    }
