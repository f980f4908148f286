"""Groups of a given size: one replica per index, which the engine replaces when it fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pliant.engine.pods.replicas import Replica, ReplicaState, compute_state
from pliant.model.framework import Rank
from pliant.model.job import Job, Master, ReplicaGroup
from pliant.model.labels import replica_names
from pliant.model.observed import ObservedPod
from pliant.model.state import GroupState, ReplicaOutcome


class SizeMembership:
    is_engine_managed = True
    recorded_states = frozenset({ReplicaState.SUCCEEDED, ReplicaState.FAILED})
    """Lasting outcomes; a replica that is lost with its node may come back."""

    def sync(self, job: Job, group: ReplicaGroup, group_state: GroupState, pods: Iterable[ObservedPod]) -> GroupState:
        return group_state

    def match(
        self, job: Job, group: ReplicaGroup, group_state: GroupState, pods: dict[str, ObservedPod]
    ) -> list[Replica]:
        replicas = []
        for index, name, service in replica_names(job, group):
            rank = Rank(group=group, index=index, attempt=group_state.min_attempt(index))
            pod = pods.pop(name, None)
            state = compute_state(rank, group_state.replica_outcomes.get(index), pod)
            replicas.append(Replica(rank=rank, pod_name=name, service_name=service, state=state, pod=pod))
        return replicas

    def count(self, group: ReplicaGroup, replicas: Sequence[Replica]) -> int:
        return group.size

    def restart(self, group_state: GroupState) -> GroupState:
        attempt = group_state.attempt + 1
        return replace(
            group_state,
            attempt=attempt,
            job_min_attempt=attempt,
            index_min_attempts={},
            replica_outcomes={},
            start_failure=None,
        )

    def suspend(self, group_state: GroupState, replicas: Iterable[Replica]) -> GroupState:
        """Start a new attempt; replicas that have succeeded stay succeeded although their pods are deleted."""
        succeeded = [replica.rank.index for replica in replicas if replica.outcome is ReplicaOutcome.SUCCEEDED]
        outcomes = group_state.replica_outcomes | dict.fromkeys(succeeded, ReplicaOutcome.SUCCEEDED)
        return replace(self.restart(group_state), replica_outcomes=outcomes)

    def resume(self, group_state: GroupState, master: Master | None) -> GroupState:
        return group_state
