"""Pods that a plan names: who joins, who leaves, who gives way. However many they are, each is looked up once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pliant.engine.plans.membership import GONE_STATES, MembershipChange, add_members, remove_members
from pliant.engine.pods.replicas import Replica
from pliant.model.scale_plans import PodRequest
from pliant.model.state import GroupMember, GroupState


class MemberIndex:
    """The members of one group, found by name, by id and by rank."""

    def __init__(self, replicas: Iterable[Replica]) -> None:
        self._by_name: dict[str, list[Replica]] = {}
        self._by_id: dict[int, list[Replica]] = {}
        self._by_rank: dict[int, list[Replica]] = {}
        for place in replicas:
            self._by_name.setdefault(place.pod_name, []).append(place)
            self._by_id.setdefault(place.rank.index, []).append(place)
            if place.rank.member is not None:
                self._by_rank.setdefault(place.rank.member.rank, []).append(place)

    def has_id(self, member_id: int) -> bool:
        """Whether somebody has this id."""
        return member_id in self._by_id

    def at_rank(self, rank: int | None) -> list[Replica]:
        """All who hold a rank."""
        return self._by_rank.get(rank, []) if rank is not None else []

    def find_requested(self, request: PodRequest) -> list[Replica]:
        """Whom a plan means: by name, else by id, else by rank."""
        if request.name and (found := self._by_name.get(request.name)):
            return found
        if request.id is not None and (found := self._by_id.get(request.id)):
            return found
        return [] if request.name else self.at_rank(request.rank)


def create_requested(
    member_index: MemberIndex, group_state: GroupState, requests: Iterable[PodRequest]
) -> tuple[MembershipChange, list[str]]:
    """So many more; one that is there already is no news."""
    members, holders, next_id = dict(group_state.members), dict(group_state.rank_relaunches), group_state.next_member_id
    added: list[int] = []
    told: list[str] = []
    for pod in requests:
        if pod.id is not None and (pod.id in members or member_index.has_id(pod.id)):
            continue
        index = next_id if pod.id is None else pod.id
        rank = index if pod.rank is None else pod.rank
        before = [each.rank.member.relaunches for each in member_index.at_rank(rank) if each.rank.member is not None]
        relaunches = max([*before, holders.get(rank, -1)]) + 1
        members[index] = GroupMember(
            rank=rank,
            service=pod.service,
            port=pod.port,
            resources=dict(pod.resources) or group_state.member_resources,
            relaunches=relaunches,
        )
        holders[rank], next_id = relaunches, max(next_id, index + 1)
        added.append(index)
        told.append(f"{pod.group}-{index} joins at rank {rank}")
    after = (
        replace(group_state, members=members, rank_relaunches=holders, next_member_id=next_id) if added else group_state
    )
    return MembershipChange(group_state=after, added_ids=tuple(added)), told


def remove_requested(
    member_index: MemberIndex, group_state: GroupState, requests: Iterable[PodRequest]
) -> tuple[MembershipChange, list[str]]:
    """Without these; those who left before are no news."""
    meant = {place.pod_name: place for pod in requests for place in member_index.find_requested(pod)}
    leaving = [place for place in meant.values() if _can_be_removed(place, group_state)]
    return remove_members(group_state, leaving), [f"{place.display_name} leaves" for place in leaving]


def migrate_requested(
    member_index: MemberIndex, group_state: GroupState, requests: Sequence[PodRequest], id_gap: int
) -> tuple[MembershipChange, list[str]]:
    """A successor for each, who stays until it runs."""
    taken = {member.replaces_id for member in group_state.members.values()}
    heirs: list[GroupMember] = []
    told: list[str] = []
    for pod in requests:
        # Some plans name the one that gives way, others the one that comes: a rank is held by the former.
        meant = member_index.find_requested(pod) or member_index.at_rank(pod.rank)
        place = next((place for place in meant if place.state not in GONE_STATES), None)
        if place is None or place.rank.index in taken:
            continue
        old = place.rank.member or GroupMember(rank=place.rank.index)
        resource = {**old.resources, **pod.resources}
        heirs.append(
            GroupMember(rank=old.rank, resources=resource, relaunches=old.relaunches, replaces_id=place.rank.index)
        )
        taken.add(place.rank.index)
        told.append(place.display_name)
    if not heirs:
        return MembershipChange(group_state=group_state), []
    change = add_members(group_state, heirs, id_gap)
    group = requests[0].group
    return change, [
        f"{title} gives way to {group}-{index}" for title, index in zip(told, change.added_ids, strict=True)
    ]


def _can_be_removed(replica: Replica, group_state: GroupState) -> bool:
    """Whether a member is still to be sent away: one that has been, or is leaving, is not."""
    if replica.pod is not None and replica.pod.is_external:
        return not replica.pod.is_terminating
    return replica.rank.index in group_state.members
