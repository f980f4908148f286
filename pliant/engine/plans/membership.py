"""Groups that a master looks after: who belongs to them is a list, kept true to the pods that are seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.model.job import Job, MembershipSource, ReplicaGroup
from pliant.model.labels import normalize_group_name, replica_pod_name
from pliant.model.observed import Observed, ObservedPod
from pliant.model.state import EngineState, GroupMember, GroupState

PLIANT_MASTER_OPTION = "own_master"
"""The option of a job that says whether its master is ours: it knows who was sent away, and who came."""
MANUAL_ID_GAP = 100
MAX_ID_JUMP = 1_000_000
"""How far ids may go beyond the next one."""
GONE_STATES = (ReplicaState.FAILED, ReplicaState.LOST, ReplicaState.TERMINATING, ReplicaState.DISRUPTED)
"""Those who hold a rank no longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipChange:
    """What becomes of a group: who is listed from now on, and which pods of others have to go."""

    group_state: GroupState
    added_ids: tuple[int, ...] = ()
    """The ids of newcomers."""
    removed_pod_uids: tuple[str, ...] = ()
    """The uids of pods that a master made and that have to go."""

    def then(self, other: MembershipChange) -> MembershipChange:
        """This, and after it another."""
        return MembershipChange(
            group_state=other.group_state,
            added_ids=(*(index for index in self.added_ids if index in other.group_state.members), *other.added_ids),
            removed_pod_uids=(*self.removed_pod_uids, *other.removed_pod_uids),
        )


def with_synced_members(job: Job, observed: Observed, state: EngineState) -> EngineState:
    """The memory with the lists kept true: who was there and is not has left, and is made again by nobody."""
    groups = {
        group.name: _sync_members(job, group, state.group(group.name), observed.pods)
        for group in job.groups
        if group.membership_source is MembershipSource.MASTER
    }
    return replace(state, groups={**state.groups, **groups}) if groups else state


def resize_members(
    group_state: GroupState, replicas: Iterable[Replica], size: int, *, id_gap: int = 0
) -> MembershipChange:
    """As many members as wanted: newcomers at the lowest free ranks, the highest ranks go first.

    Ids of newcomers may be kept apart from those that a master would give next.
    """
    alive = {place.rank.index: place for place in replicas if place.state not in GONE_STATES}
    by_rank: dict[int, list[Replica]] = {}
    for place in alive.values():
        by_rank.setdefault(member_rank(place), []).append(place)
    surplus = sorted(by_rank, reverse=True)[: max(len(by_rank) - size, 0)]
    change = remove_members(group_state, [place for rank in surplus for place in by_rank[rank]])
    free = (rank for rank in range(size + len(by_rank)) if rank not in by_rank)
    newcomers = [
        GroupMember(rank=next(free), resources=group_state.member_resources) for _ in range(size - len(by_rank))
    ]
    return change.then(add_members(change.group_state, newcomers, id_gap)) if newcomers else change


def remove_members(group_state: GroupState, replicas: Iterable[Replica]) -> MembershipChange:
    """Without these members."""
    leaving = list(replicas)
    ids = {place.rank.index for place in leaving}
    foreign = [place.pod.uid for place in leaving if place.pod is not None and place.pod.is_external]
    members = {index: member for index, member in group_state.members.items() if index not in ids}
    kept = {member.rank for member in members.values()}
    left = {member_rank(place) for place in leaving} - kept
    holders = {rank: times for rank, times in group_state.rank_relaunches.items() if rank not in left}
    return MembershipChange(
        group_state=replace(group_state, members=members, rank_relaunches=holders), removed_pod_uids=tuple(foreign)
    )


def member_id_gap(framework_options: Mapping[str, object], *, is_manual: bool) -> int:
    """How far ids of newcomers are kept from those of a master that is not ours, and does not know of them yet."""
    return MANUAL_ID_GAP if is_manual and not framework_options.get(PLIANT_MASTER_OPTION) else 0


def add_members(group_state: GroupState, members: Iterable[GroupMember], id_gap: int = 0) -> MembershipChange:
    """With these members more, at the next ids."""
    first = group_state.next_member_id + (id_gap if group_state.next_member_id else 0)
    fresh = dict(enumerate(members, first))
    after = replace(
        group_state,
        members={**group_state.members, **fresh},
        rank_relaunches={
            **group_state.rank_relaunches,
            **{member.rank: member.relaunches for member in fresh.values()},
        },
        next_member_id=first + len(fresh),
    )
    return MembershipChange(group_state=after, added_ids=tuple(fresh))


def member_rank(replica: Replica) -> int:
    """The rank that a member holds, which is not its id."""
    return replica.rank.member.rank if replica.rank.member else replica.rank.index


def _sync_members(job: Job, group: ReplicaGroup, group_state: GroupState, pods: Iterable[ObservedPod]) -> GroupState:
    of_group = [pod for pod in pods if pod.group == normalize_group_name(group.name)]
    there = {pod.name for pod in of_group if not pod.is_external}
    listed = group_state.members or _adopt_pods(group_state, of_group)
    members: dict[int, GroupMember] = {}
    for index, member in listed.items():
        if replica_pod_name(job, group.name, index) in there:
            members[index] = member if member.was_created else replace(member, was_created=True)
        elif not member.was_created:
            members[index] = member
    # Labels may say anything, and an id is used once: whoever leaps would leave none for those who come.
    next_id = max(
        [
            group_state.next_member_id,
            *(pod.index + 1 for pod in of_group if pod.index < group_state.next_member_id + MAX_ID_JUMP),
        ]
    )
    if (members, next_id) == (group_state.members, group_state.next_member_id):
        return group_state
    return replace(group_state, members=members, next_member_id=next_id)


def _adopt_pods(group_state: GroupState, pods: Iterable[ObservedPod]) -> Mapping[int, GroupMember]:
    """Who is there although nobody is known to have been: the memory was lost, and the pods were not."""
    if group_state.next_member_id:
        return group_state.members
    return {
        pod.index: GroupMember(rank=pod.rank if pod.rank >= 0 else pod.index, was_created=True)
        for pod in pods
        if not pod.is_external and pod.index >= 0
    }
