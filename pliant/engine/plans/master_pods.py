"""The pods of masters and of the members that they decide about."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pliant.engine.context import Context
from pliant.engine.plans.member_list import VACATED_RANK_STATES, member_rank
from pliant.engine.pods.deletion import delete_pods, delete_pods_without_relaunch
from pliant.engine.pods.replicas import Replica, Replicas, ReplicaState
from pliant.model.actions import Action, CheckMasterAccess, GrantMasterAccess, PodDeletionReason
from pliant.model.job import Job, ReplicaGroup
from pliant.model.labels import normalize_group_name, replica_service_name
from pliant.model.observed import ObservedPod
from pliant.model.operator_config import OperatorConfig


def apply_master_defaults(job: Job, config: OperatorConfig) -> Job:
    """Fill in the image, the command and the service account of the master.

    A template without an image gets Pliant's master; its arguments are already in the template.
    """
    if job.master is None:
        return job
    groups = tuple(_with_master_defaults(group, job, config) if group.is_master else group for group in job.groups)
    return dataclasses.replace(job, groups=groups)


def _with_master_defaults(group: ReplicaGroup, job: Job, config: OperatorConfig) -> ReplicaGroup:
    spec: Mapping[str, Any] = group.template.get("spec") or {}
    first, *others = spec.get("containers") or [{}]
    if not first.get("image"):
        command = first.get("command") or list(config.master_command)
        first = {**first, "image": config.master_image or "pliant", "command": command}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or master_account_name(job, group)
    pod = {**spec, "serviceAccountName": account, "containers": [first, *others]}
    return dataclasses.replace(group, template={**group.template, "spec": pod})


def master_account_name(job: Job, group: ReplicaGroup) -> str:
    """Return the name of the service account that is created for a master: that of its service."""
    return replica_service_name(job, group.name, 0)


def prepare_master_access(job: Job, replicas: Iterable[Replica]) -> Iterator[GrantMasterAccess | CheckMasterAccess]:
    """Yield what a master needs before its pod is created: permissions only for the account that is made for it."""
    for replica in replicas:
        if replica.rank.group.is_master:
            own_account = master_account_name(job, replica.rank.group)
            account = (replica.rank.group.template.get("spec") or {}).get("serviceAccountName") or own_account
            if account == own_account:
                yield GrantMasterAccess(service_account=account)
            else:
                yield CheckMasterAccess(service_account=account)


def has_pods_besides_master(context: Context) -> bool:
    return any(not is_master_pod(context.job, pod) for pod in context.observed.pods)


def is_master_pod(job: Job, pod: ObservedPod) -> bool:
    return job.master is not None and pod.group == normalize_group_name(job.master.group)


def list_master_services(job: Job) -> set[str]:
    masters = [group for group in job.groups if group.is_master]
    return {replica_service_name(job, group.name, index) for group in masters for index in range(group.size)}


def select_suspended_replicas(context: Context) -> Replicas:
    """Return the replicas that a suspended job keeps: its master, if it has one.

    The master is restarted: the old one would replace the deleted members. The new one is created after their pods
    are gone, because it would adopt them.
    """
    masters = [replica for replica in context.replicas.all if replica.rank.group.is_master]
    if has_pods_besides_master(context):
        masters = [replica for replica in masters if replica.state is not ReplicaState.ABSENT]
    return Replicas(all=tuple(masters), orphan_pods=())


def delete_member_pods(context: Context, replicas: Replicas) -> Iterator[Action]:
    """Delete lost pods of master-managed groups, so that the master notices, and pods removed from the job."""
    managed = [each for each in replicas.all if each.rank.group.is_master_managed]
    if not managed:
        return
    lost = [replica.pod for replica in managed if replica.state is ReplicaState.LOST and replica.pod is not None]
    yield from delete_pods(lost, PodDeletionReason.NODE_LOST, context.config, context.now)
    removed_uids = {uid for plan in context.state.plan_executions.values() for uid in plan.removed_pod_uids}
    removed_uids |= _list_surplus_uids(context, replicas)
    removed = [replica.pod for replica in managed if replica.pod is not None and replica.pod.uid in removed_uids]
    yield from delete_pods_without_relaunch(removed, PodDeletionReason.REMOVED, context.config, context.now)


def delete_orphan_pods(context: Context, orphan_pods: list[ObservedPod]) -> Iterator[Action]:
    """Delete pods without a replica; some masters would recreate those of their groups."""
    master_groups: set[str] = set()
    if context.job.master is not None and context.job.master.relaunches_deleted_pods:
        groups = [group for group in context.job.groups if group.is_master_managed]
        master_groups = {normalize_group_name(group.name) for group in groups}
    for pod in orphan_pods:
        delete = delete_pods_without_relaunch if pod.group in master_groups else delete_pods
        yield from delete([pod], PodDeletionReason.REMOVED, context.config, context.now)


def _list_surplus_uids(context: Context, replicas: Replicas) -> set[str]:
    """Return the pod UIDs of the highest ranks that a master requested or created beyond the size set by a user.

    These pods are created and then deleted: a master would wait forever for a member that was refused.
    """
    surplus: set[str] = set()
    for group in context.job.groups:
        group_state = context.state.group(group.name)
        is_capped = group_state.is_user_capped and group_state.applied_size is not None
        if not group.is_master_managed or not is_capped:
            continue
        alive = [replica for replica in replicas.in_group(group) if replica.state not in VACATED_RANK_STATES]
        kept_ranks = set(sorted({member_rank(replica) for replica in alive})[: group_state.applied_size])
        surplus |= {
            replica.pod.uid
            for replica in alive
            if replica.pod is not None and replica.outcome is None and member_rank(replica) not in kept_ranks
        }
    return surplus
