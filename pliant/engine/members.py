"""The membership that replicas learn of: who takes part in the training, in rank order."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.model.departures import KEPT_REASONS, PublishedMember, PublishedMembership, format_indexes, parse_indexes
from pliant.model.framework import Rank
from pliant.model.job import Job, ReplicaGroup
from pliant.model.labels import normalize_group_name, rank_host
from pliant.model.state import EngineState, JobPhase


def publish_membership(state: EngineState, job: Job, replicas: Sequence[Replica]) -> EngineState:
    """Return the state with the membership of the running replicas; a change has a new generation.

    Replicas that leave together with all others, because their job is suspended or restarts, stay members, so that they
    can write a common checkpoint.
    """
    if not job.publishes_membership or _all_leave(replicas, state):
        return state
    leaving = _list_leaving(state)
    running = (each for each in replicas if each.state is ReplicaState.RUNNING and has_ranks(each.rank.group))
    # A member of a master that another one has superseded leaves while it is still listed.
    members = [each for each in running if each.pod is None or each.pod.uid not in leaving]
    indexes = {
        group.name: format_indexes(each.rank.index for each in members if each.rank.group is group)
        for group in job.groups
        if has_ranks(group)
    }
    attempts = {
        group.name: max((each.rank.attempt for each in members if each.rank.group is group), default=0)
        for group in job.groups
        if has_ranks(group)
    }
    before = state.membership or PublishedMembership()
    published = {name: ranges for name, ranges in indexes.items() if ranges}
    latest = {name: attempt for name, attempt in attempts.items() if attempt}
    if (published, latest) == (before.indexes, before.attempts):
        return state
    after = replace(before, generation=before.generation + 1, indexes=published, attempts=latest)
    return replace(state, membership=after)


def list_members(job: Job, state: EngineState) -> list[PublishedMember]:
    """Return the published members in rank order: first by the order of the groups, then by index."""
    published = state.membership.indexes if state.membership is not None else {}
    members: list[PublishedMember] = []
    for group in job.groups:
        listed = [_rank_of(group, index, state) for index in parse_indexes(published.get(group.name, ""))]
        for rank in sorted(listed, key=lambda rank: rank.index if rank.member is None else rank.member.rank):
            name = f"{normalize_group_name(group.name)}-{rank.index}"
            address = f"{rank_host(job, rank)}.{job.key.namespace}"
            members.append(
                PublishedMember(name=name, group=group.name, index=rank.index, rank=len(members), address=address)
            )
    return members


def has_ranks(group: ReplicaGroup) -> bool:
    return not (group.is_master or group.is_control)


def _rank_of(group: ReplicaGroup, index: int, state: EngineState) -> Rank:
    return Rank(group=group, index=index, attempt=0, member=state.group(group.name).members.get(index))


def _list_leaving(state: EngineState) -> set[str]:
    """Return the UIDs of the pods that are about to be deleted."""
    return {uid for uid, departure in state.departures.items() if departure.reason not in KEPT_REASONS}


def _all_leave(replicas: Sequence[Replica], state: EngineState) -> bool:
    """Return whether the replicas save their state together, because their job is suspended, ends or restarts."""
    leaving = _list_leaving(state)
    if not leaving or state.phase in (JobPhase.SUSPENDED, JobPhase.TERMINATING):
        return bool(leaving)
    return any(
        each.state is ReplicaState.STALE and each.pod is not None and each.pod.uid in leaving for each in replicas
    )
