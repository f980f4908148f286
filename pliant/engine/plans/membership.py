"""Where the replicas of a group come from: its size, or a list of members that the job's master changes by plans."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from msgspec.structs import replace

from pliant.engine.plans.member_list import ListMembership
from pliant.engine.plans.size_membership import SizeMembership
from pliant.engine.pods.deletion import is_lost
from pliant.engine.pods.replicas import Replica, Replicas, ReplicaState
from pliant.model.job import Job, Master, ReplicaGroup
from pliant.model.observed import Observed, ObservedPod
from pliant.model.operator_config import OperatorConfig
from pliant.model.state import EngineState, GroupState

_ON_NODE_STATES = (ReplicaState.SCHEDULED, ReplicaState.RUNNING)


class MembershipSource(Protocol):
    """Determines which replicas a group has, and what restarts and suspensions mean for them."""

    @property
    def is_engine_managed(self) -> bool:
        """Whether the engine resizes the group and replaces its replicas; otherwise the job's master does."""

    @property
    def recorded_states(self) -> frozenset[ReplicaState]:
        """The states of replicas whose outcome is recorded, since it outlives the pod."""

    def sync(self, job: Job, group: ReplicaGroup, group_state: GroupState, pods: Iterable[ObservedPod]) -> GroupState:
        """Return the state with the membership that follows from the observed pods."""

    def match(
        self, job: Job, group: ReplicaGroup, group_state: GroupState, pods: dict[str, ObservedPod]
    ) -> list[Replica]:
        """Return the replicas of the group, and remove their pods from `pods`."""

    def count(self, group: ReplicaGroup, replicas: Sequence[Replica]) -> int:
        """Return the number of replicas that the group should have."""

    def restart(self, group_state: GroupState) -> GroupState:
        """Return the state in which all current pods are stale, if the engine replaces them."""

    def suspend(self, group_state: GroupState, replicas: Iterable[Replica]) -> GroupState:
        """Return the state in which resumed replicas never meet the current ones."""

    def resume(self, group_state: GroupState, master: Master | None) -> GroupState:
        """Return the state with the membership that a resumed job starts with."""


_BY_SIZE, _BY_LIST = SizeMembership(), ListMembership()


def membership_of(group: ReplicaGroup) -> MembershipSource:
    return _BY_LIST if group.is_master_managed else _BY_SIZE


def job_in_effect(spec: Job, state: EngineState, stored: EngineState | None = None) -> Job:
    """Return the job with its groups at the sizes, members and generations in effect.

    The addresses that replicas get list the members of the `stored` state: a member that was lost since then is about
    to be replaced, and keeps its place in the list until then.
    """
    stored = stored or state
    groups = tuple(_group_in_effect(group, state.group(group.name), stored.group(group.name)) for group in spec.groups)
    return dataclasses.replace(spec, groups=groups, server_addresses=stored.server_addresses)


def _group_in_effect(group: ReplicaGroup, group_state: GroupState, stored: GroupState) -> ReplicaGroup:
    return dataclasses.replace(
        group,
        size=group.size if group_state.applied_size is None else group_state.applied_size,
        skipped_indexes=group_state.skipped_indexes,
        members=stored.members,
        generation=max(stored.job_min_attempt, stored.group_min_attempt),
    )


def with_synced_members(job: Job, observed: Observed, state: EngineState) -> EngineState:
    """Return the state with the memberships that follow from the observed pods."""
    synced = {
        group.name: membership_of(group).sync(job, group, state.group(group.name), observed.pods)
        for group in job.groups
    }
    return replace(state, groups={**state.groups, **synced})


def match_pods_to_replicas(
    job: Job, observed: Observed, state: EngineState, config: OperatorConfig, now: datetime
) -> Replicas:
    """Match every replica with its pod; pods without a replica are orphans."""
    pods = {pod.name: pod for pod in observed.pods}
    replicas: list[Replica] = []
    for group in job.groups:
        for replica in membership_of(group).match(job, group, state.group(group.name), pods):
            is_on_node = replica.state in _ON_NODE_STATES
            if is_on_node and replica.pod is not None and is_lost(replica.pod, config, now):
                replica = dataclasses.replace(replica, state=ReplicaState.LOST)
            replicas.append(replica)
    # Pods that a master created are deleted only by name.
    orphans = sorted((pod for pod in pods.values() if not pod.is_external), key=lambda pod: pod.name)
    return Replicas(all=tuple(replicas), orphan_pods=tuple(orphans))
