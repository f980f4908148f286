"""What the status of a job with a master shows."""

from __future__ import annotations

from pliant.engine.context import Context
from pliant.engine.plans.master_pods import is_master_pod
from pliant.engine.plans.member_list import VACATED_RANK_STATES
from pliant.engine.pods.replicas import Replica, Replicas, ReplicaState
from pliant.model.job import Job
from pliant.model.messages import Message, MessageReason, message
from pliant.model.state import EngineState


def have_managed_workers_succeeded(job: Job, replicas: Replicas, state: EngineState) -> bool:
    """Return whether all master-managed members other than servers have succeeded."""
    groups = [group for group in job.groups if group.is_master_managed and not group.is_server]
    if not any(state.group(group.name).replica_outcomes for group in groups):
        return False
    return all(replica.state is ReplicaState.SUCCEEDED for replica in replicas.all if replica.rank.group in groups)


def master_message(context: Context, missing_replicas: list[Replica]) -> Message | None:
    """Return the message of a job whose master runs; None if the job has none."""
    if context.job.master is None or any(replica.rank.group.is_master for replica in missing_replicas):
        return None
    counts = []
    for group in (group for group in context.job.groups if group.is_master_managed):
        replicas = context.replicas.in_group(group)
        running = sum(replica.state is ReplicaState.RUNNING for replica in replicas)
        finished = sum(replica.outcome is not None for replica in replicas)
        gone = sum(replica.state in VACATED_RANK_STATES or replica.outcome is not None for replica in replicas)
        wanted = max(context.state.group(group.name).applied_size or 0, len(replicas) - gone)
        if wanted or finished:
            numbers = {"running": running, "wanted": wanted, "finished": finished or None}
            counts.append(message(MessageReason.MEMBER_COUNT, group=group.name, **numbers))
    return message(MessageReason.MEMBERS_RUNNING, counts) if counts else message(MessageReason.WAITING_FOR_MASTER)


def count_pods_besides_master(context: Context) -> int:
    return sum(not is_master_pod(context.job, pod) for pod in context.observed.pods)
