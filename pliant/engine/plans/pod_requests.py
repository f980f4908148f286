"""Pods that a ScalePlan asks to create, remove or migrate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pliant.engine.plans.member_list import (
    VACATED_RANK_STATES,
    MembershipChange,
    add_members,
    member_id_gap,
    new_member_resources,
    remove_members,
)
from pliant.engine.pods.replicas import Replica
from pliant.model.job import Master
from pliant.model.messages import Message, MessageReason, message
from pliant.model.scale_plans import PlanPodRequest
from pliant.model.state import GroupMember, GroupState


class MemberIndex:
    """An index of the members of one group by pod name, ID and rank."""

    def __init__(self, replicas: Iterable[Replica]) -> None:
        self._by_name: dict[str, list[Replica]] = {}
        self._by_id: dict[int, list[Replica]] = {}
        self._by_rank: dict[int, list[Replica]] = {}
        for replica in replicas:
            self._by_name.setdefault(replica.pod_name, []).append(replica)
            self._by_id.setdefault(replica.rank.index, []).append(replica)
            if replica.rank.member is not None:
                self._by_rank.setdefault(replica.rank.member.rank, []).append(replica)

    def has_id(self, member_id: int) -> bool:
        return member_id in self._by_id

    def at_rank(self, rank: int | None) -> list[Replica]:
        return self._by_rank.get(rank, []) if rank is not None else []

    def find_requested(self, request: PlanPodRequest) -> list[Replica]:
        """Return the members that a request names: by pod name, else by ID, else by rank."""
        if request.name and (found := self._by_name.get(request.name)):
            return found
        if request.id is not None and (found := self._by_id.get(request.id)):
            return found
        return [] if request.name else self.at_rank(request.rank)


def create_requested_members(
    member_index: MemberIndex, group_state: GroupState, requests: Iterable[PlanPodRequest], *, is_manual: bool
) -> tuple[MembershipChange, list[Message]]:
    """Add the requested members; those that exist already are ignored."""
    members, relaunches = dict(group_state.members), dict(group_state.rank_relaunches)
    next_id = group_state.next_member_id
    added: list[int] = []
    messages: list[Message] = []
    for pod in requests:
        if pod.id is not None and (pod.id in members or member_index.has_id(pod.id)):
            continue
        member_id = next_id if pod.id is None else pod.id
        rank = member_id if pod.rank is None else pod.rank
        before = [each.rank.member.relaunches for each in member_index.at_rank(rank) if each.rank.member is not None]
        relaunches[rank] = max([*before, relaunches.get(rank, -1)]) + 1
        members[member_id] = GroupMember(
            rank=rank,
            service=pod.service,
            port=pod.port,
            resources=new_member_resources(group_state, pod.resources, is_manual=is_manual),
            relaunches=relaunches[rank],
        )
        next_id = max(next_id, member_id + 1)
        added.append(member_id)
        messages.append(message(MessageReason.MEMBER_JOINS, member=f"{pod.group}-{member_id}", rank=rank))
    if not added:
        return MembershipChange(group_state=group_state), []
    after = replace(group_state, members=members, rank_relaunches=relaunches, next_member_id=next_id)
    return MembershipChange(group_state=after, added_ids=tuple(added)), messages


def remove_requested_members(
    member_index: MemberIndex, group_state: GroupState, requests: Iterable[PlanPodRequest]
) -> tuple[MembershipChange, list[Message]]:
    """Remove the requested members; those that were removed before are ignored."""
    found = {replica.pod_name: replica for pod in requests for replica in member_index.find_requested(pod)}
    removed = [replica for replica in found.values() if _can_be_removed(replica, group_state)]
    messages = [message(MessageReason.MEMBER_LEAVES, member=replica.display_name) for replica in removed]
    return remove_members(group_state, removed), messages


def migrate_requested_members(
    member_index: MemberIndex,
    group_state: GroupState,
    requests: Sequence[PlanPodRequest],
    master: Master | None,
    *,
    is_manual: bool,
) -> tuple[MembershipChange, list[Message]]:
    """Add a replacement for each requested member; the member stays until its replacement runs."""
    migrating_ids = {member.replaces_id for member in group_state.members.values()}
    replacements: list[GroupMember] = []
    replaced: list[Replica] = []
    for pod in requests:
        # Some plans name the pod to replace, others the new pod, which has the rank of the pod to replace.
        found = member_index.find_requested(pod) or member_index.at_rank(pod.rank)
        replica = next((replica for replica in found if replica.state not in VACATED_RANK_STATES), None)
        if replica is None or replica.rank.index in migrating_ids:
            continue
        member_id, member = replica.rank.index, replica.rank.member or GroupMember(rank=replica.rank.index)
        inherited = replace(group_state, member_resources={**group_state.member_resources, **member.resources})
        resources = new_member_resources(inherited, pod.resources, is_manual=is_manual)
        rank, relaunches = member.rank, member.relaunches
        replacements.append(GroupMember(rank=rank, resources=resources, relaunches=relaunches, replaces_id=member_id))
        migrating_ids.add(member_id)
        replaced.append(replica)
    if not replacements:
        return MembershipChange(group_state=group_state), []
    id_gap = member_id_gap(master, is_manual=is_manual)
    change, group = add_members(group_state, replacements, id_gap), requests[0].group
    uids = tuple(replica.pod.uid for replica in replaced if replica.pod is not None)
    return dataclasses.replace(change, replaced_pod_uids=uids), [
        message(MessageReason.MEMBER_MIGRATES, member=replica.display_name, replacement=f"{group}-{new}")
        for replica, new in zip(replaced, change.added_ids, strict=True)
    ]


def _can_be_removed(replica: Replica, group_state: GroupState) -> bool:
    if replica.pod is not None and replica.pod.is_external:
        return not replica.pod.is_terminating
    return replica.rank.index in group_state.members
