"""Groups of listed members: ScalePlans change the list, and the job's master replaces lost members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from pliant.engine.pods.replicas import Replica, ReplicaState, compute_state
from pliant.model.framework import Rank
from pliant.model.job import Job, Master, ReplicaGroup
from pliant.model.labels import normalize_group_name, rank_own_service, replica_pod_name
from pliant.model.observed import ObservedPod
from pliant.model.state import GroupMember, GroupState

MANUAL_ID_GAP = 100
MAX_ID_JUMP = 1_000_000
"""How far a requested ID may lie above the next ID."""
VACATED_RANK_STATES = (ReplicaState.FAILED, ReplicaState.LOST, ReplicaState.TERMINATING, ReplicaState.DISRUPTED)
"""States in which a member no longer occupies its rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipChange:
    group_state: GroupState
    added_ids: tuple[int, ...] = ()
    removed_pod_uids: tuple[str, ...] = ()
    replaced_pod_uids: tuple[str, ...] = ()

    def followed_by(self, other: MembershipChange) -> MembershipChange:
        return MembershipChange(
            group_state=other.group_state,
            added_ids=(*(each for each in self.added_ids if each in other.group_state.members), *other.added_ids),
            removed_pod_uids=(*self.removed_pod_uids, *other.removed_pod_uids),
            replaced_pod_uids=(*self.replaced_pod_uids, *other.replaced_pod_uids),
        )


class ListMembership:
    is_engine_managed = False
    recorded_states = frozenset({ReplicaState.SUCCEEDED})
    """Some masters delete the pods of succeeded members; failed members are theirs to replace."""

    def sync(self, job: Job, group: ReplicaGroup, group_state: GroupState, pods: Iterable[ObservedPod]) -> GroupState:
        """Remove members whose pods are gone: the engine never recreates them."""
        group_pods = [pod for pod in pods if pod.group == normalize_group_name(group.name)]
        existing = {pod.name for pod in group_pods if not pod.is_external}
        listed = group_state.members or _adopt_pods(group_state, group_pods)
        members: dict[int, GroupMember] = {}
        for member_id, member in listed.items():
            if replica_pod_name(job, group.name, member_id) in existing:
                members[member_id] = member if member.was_created else replace(member, was_created=True)
            elif not member.was_created:
                members[member_id] = member
        # The labels of external pods are not validated: a huge index must not use up the IDs.
        max_index = group_state.next_member_id + MAX_ID_JUMP
        next_id = max([group_state.next_member_id, *(pod.index + 1 for pod in group_pods if pod.index < max_index)])
        if (members, next_id) == (group_state.members, group_state.next_member_id):
            return group_state
        return replace(group_state, members=members, next_member_id=next_id)

    def match(
        self, job: Job, group: ReplicaGroup, group_state: GroupState, pods: dict[str, ObservedPod]
    ) -> list[Replica]:
        """Return the listed members and the pods that the master created."""
        replicas = []
        for index, member in sorted(group_state.members.items()):
            rank = Rank(group=group, index=index, attempt=0, member=member)
            name = replica_pod_name(job, group.name, index)
            replicas.append(_make_replica(rank, pods.pop(name, None), rank_own_service(job, rank), name))
        external = [pod for pod in pods.values() if pod.is_external and pod.group == normalize_group_name(group.name)]
        for pod in sorted(external, key=lambda pod: pod.name):
            del pods[pod.name]
            member = GroupMember(rank=pod.rank if pod.rank >= 0 else pod.index, was_created=True)
            rank = Rank(group=group, index=pod.index, attempt=0, member=member)
            replicas.append(_make_replica(rank, pod, "", pod.name))
        return replicas

    def count(self, group: ReplicaGroup, replicas: Sequence[Replica]) -> int:
        """Return the number of members that have not been lost: the master has replaced or dropped those."""
        return sum(replica.state not in VACATED_RANK_STATES for replica in replicas)

    def restart(self, group_state: GroupState) -> GroupState:
        return group_state

    def suspend(self, group_state: GroupState, replicas: Iterable[Replica]) -> GroupState:
        return group_state

    def resume(self, group_state: GroupState, master: Master | None) -> GroupState:
        """Empty the list for a master that numbers its members from 0 and waits for these IDs."""
        if master is None or not master.assigns_member_ids:
            return group_state
        return replace(group_state, members={}, next_member_id=0)


def resize_members(
    group_state: GroupState, replicas: Iterable[Replica], size: int, *, id_gap: int = 0
) -> MembershipChange:
    """Resize a group: new members get the lowest free ranks, and the highest ranks are removed first.

    `id_gap` separates the IDs of new members from those that the master would assign next.
    """
    alive = {replica.rank.index: replica for replica in replicas if replica.state not in VACATED_RANK_STATES}
    by_rank: dict[int, list[Replica]] = {}
    for replica in alive.values():
        by_rank.setdefault(member_rank(replica), []).append(replica)
    surplus = sorted(by_rank, reverse=True)[: max(len(by_rank) - size, 0)]
    change = remove_members(group_state, [replica for rank in surplus for replica in by_rank[rank]])
    free = (rank for rank in range(size + len(by_rank)) if rank not in by_rank)
    resources = group_state.member_resources
    added = [GroupMember(rank=next(free), resources=resources) for _ in range(size - len(by_rank))]
    return change.followed_by(add_members(change.group_state, added, id_gap)) if added else change


def remove_members(group_state: GroupState, replicas: Iterable[Replica]) -> MembershipChange:
    removed = list(replicas)
    ids = {replica.rank.index for replica in removed}
    uids = tuple(replica.pod.uid for replica in removed if replica.pod is not None)
    members = {member_id: member for member_id, member in group_state.members.items() if member_id not in ids}
    freed_ranks = {member_rank(replica) for replica in removed} - {member.rank for member in members.values()}
    relaunches = {rank: count for rank, count in group_state.rank_relaunches.items() if rank not in freed_ranks}
    after = replace(group_state, members=members, rank_relaunches=relaunches)
    return MembershipChange(group_state=after, removed_pod_uids=uids)


def member_id_gap(master: Master | None, *, is_manual: bool) -> int:
    """Return the gap before the IDs of manually added members, if the master would assign the next IDs itself."""
    return MANUAL_ID_GAP if is_manual and master is not None and master.assigns_member_ids else 0


def add_members(group_state: GroupState, members: Iterable[GroupMember], id_gap: int = 0) -> MembershipChange:
    first_id = group_state.next_member_id + (id_gap if group_state.next_member_id else 0)
    added = dict(enumerate(members, first_id))
    relaunches = {member.rank: member.relaunches for member in added.values()}
    after = replace(
        group_state,
        members={**group_state.members, **added},
        rank_relaunches={**group_state.rank_relaunches, **relaunches},
        next_member_id=first_id + len(added),
    )
    return MembershipChange(group_state=after, added_ids=tuple(added))


def new_member_resources(group_state: GroupState, requested: Mapping[str, str], *, is_manual: bool) -> dict[str, str]:
    """Return the resources of a new member: those of its group, unless this request is for other ones."""
    repeated = {} if is_manual else group_state.master_resources
    changed = {name: amount for name, amount in requested.items() if repeated.get(name) != amount}
    return {**group_state.member_resources, **changed}


def member_rank(replica: Replica) -> int:
    """Return the rank of a member, which differs from its ID."""
    return replica.rank.member.rank if replica.rank.member else replica.rank.index


def _adopt_pods(group_state: GroupState, pods: Iterable[ObservedPod]) -> Mapping[int, GroupMember]:
    """Rebuild the list from the pods if the engine state was lost."""
    if group_state.next_member_id:
        return group_state.members
    return {
        pod.index: GroupMember(rank=pod.rank if pod.rank >= 0 else pod.index, was_created=True)
        for pod in pods
        if not pod.is_external and pod.index >= 0
    }


def _make_replica(rank: Rank, pod: ObservedPod | None, service_name: str, pod_name: str) -> Replica:
    state = compute_state(rank, None, pod)
    return Replica(rank=rank, pod_name=pod_name, service_name=service_name, state=state, pod=pod)
