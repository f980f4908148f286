"""The pods, services and ConfigMaps to create and delete so that every replica has its pod."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from pliant.engine.context import Context
from pliant.engine.plans.membership import PLIANT_MASTER_OPTION, VACATED_RANK_STATES, member_rank
from pliant.engine.pods.deletion import delete_pods, delete_pods_without_relaunch
from pliant.engine.pods.manifests import config_map_manifest, master_account_name, pod_manifest, service_manifest
from pliant.engine.pods.replicas import Replica, Replicas, ReplicaState
from pliant.engine.pods.shared_environment import SharedEnvironment, build_shared_environment
from pliant.engine.restart.restarts import backoff_left
from pliant.model.actions import Action, CreateConfigMap, CreatePod, CreateService, DeleteService, GrantMasterAccess
from pliant.model.framework import Framework, Rank
from pliant.model.job import Job
from pliant.model.labels import format_service_name, normalize_group_name
from pliant.model.observed import ObservedPod
from pliant.model.state import EngineState

POD_REMOVAL_REASON = "no longer part of the job"


def sync_pods(context: Context, framework: Framework) -> tuple[tuple[Action, ...], timedelta | None]:
    """Return the creations and deletions that are due, and the backoff of those that are not due yet."""
    job, services = context.job, context.observed.services
    creatable, wait = _select_creatable(context)
    # Services come first, so that a starting replica can resolve the names of its peers.
    # During a migration two members share one service name.
    missing = {each.service_name: each for each in context.replicas.all if each.service_name not in services}
    missing.pop("", None)
    actions: list[Action] = [
        CreateService(name=name, manifest=service_manifest(job, replica.rank)) for name, replica in missing.items()
    ]
    actions += [_grant_master_access(job, replica.rank) for replica in creatable if replica.rank.group.is_master]
    if creatable:
        actions += _create_pods(build_shared_environment(job, framework), creatable)
    return (*actions, *_delete_obsolete(context)), wait


def _grant_master_access(job: Job, rank: Rank) -> GrantMasterAccess:
    own_account = master_account_name(job, rank.group)
    account = (rank.group.template.get("spec") or {}).get("serviceAccountName") or own_account
    return GrantMasterAccess(service_account=account, should_create_account=account == own_account)


def _create_pods(environment: SharedEnvironment, replicas: list[Replica]) -> list[Action]:
    """Return the creations of the pods, preceded by that of their ConfigMap, which may exist already."""
    pods = [CreatePod(name=replica.pod_name, manifest=pod_manifest(environment, replica.rank)) for replica in replicas]
    if not environment.config_map_name:
        return [*pods]
    return [CreateConfigMap(name=environment.config_map_name, manifest=config_map_manifest(environment)), *pods]


def _select_creatable(context: Context) -> tuple[list[Replica], timedelta | None]:
    """Return the absent replicas that can be created now, and the shortest backoff of the others."""
    blocked = _blocked_groups(context.job, context.replicas, context.state)
    backoffs = {group.name: backoff_left(context.state.group(group.name), context.now) for group in context.job.groups}
    absent = [
        (replica, backoffs[replica.rank.group.name])
        for replica in context.replicas.all
        if replica.state is ReplicaState.ABSENT and replica.rank.group.name not in blocked
    ]
    wait = min((backoff for _, backoff in absent if backoff), default=None)
    return [replica for replica, backoff in absent if not backoff], wait


def _blocked_groups(job: Job, replicas: Replicas, state: EngineState) -> set[str]:
    """Return the groups that still have pods of an earlier generation: old and new replicas must not meet."""
    all_names = {group.name for group in job.groups}
    names = {normalize_group_name(name): name for name in all_names}
    stale = [replica.pod for replica in replicas.all if replica.state is ReplicaState.STALE and replica.pod is not None]
    blocked: set[str] = set()
    for pod in (*stale, *replicas.orphan_pods):
        name = names.get(pod.group)
        # Groups change only while a job is suspended, so a pod without a group is from before the suspension.
        if name is None or pod.attempt < state.group(name).job_min_attempt:
            return all_names
        if pod.attempt < state.group(name).group_min_attempt:
            blocked.add(name)
    return blocked


def _delete_master_managed_pods(context: Context) -> Iterator[Action]:
    """Delete lost pods of master-managed groups, so that the master notices, and pods removed from the job."""
    managed = [each for each in context.replicas.all if each.rank.group.is_master_managed]
    if not managed:
        return
    lost = [replica.pod for replica in managed if replica.state is ReplicaState.LOST and replica.pod is not None]
    yield from delete_pods(context.observed, lost, "the node is lost", context.now)
    removed_uids = {uid for plan in context.state.plan_executions.values() for uid in plan.removed_pod_uids}
    removed_uids |= _list_surplus_uids(context)
    removed = [replica.pod for replica in managed if replica.pod is not None and replica.pod.uid in removed_uids]
    yield from delete_pods_without_relaunch(context.observed, removed, POD_REMOVAL_REASON, context.now)


def _delete_orphan_pods(context: Context, orphan_pods: list[ObservedPod]) -> Iterator[Action]:
    """Delete pods without a replica; a master other than Pliant's would recreate those of its groups."""
    master_groups: set[str] = set()
    if not context.job.framework_options.get(PLIANT_MASTER_OPTION):
        groups = [group for group in context.job.groups if group.is_master_managed]
        master_groups = {normalize_group_name(group.name) for group in groups}
    for pod in orphan_pods:
        delete = delete_pods_without_relaunch if pod.group in master_groups else delete_pods
        yield from delete(context.observed, [pod], POD_REMOVAL_REASON, context.now)


def _list_surplus_uids(context: Context) -> set[str]:
    """Return the pod UIDs of the highest ranks that a master requested or created beyond the size set by a user.

    These pods are created and then deleted: a master would wait forever for a member that was refused.
    """
    surplus: set[str] = set()
    for group in context.job.groups:
        group_state = context.state.group(group.name)
        is_capped = group_state.is_user_capped and group_state.applied_size is not None
        if not group.is_master_managed or not is_capped:
            continue
        alive = [replica for replica in context.replicas.in_group(group) if replica.state not in VACATED_RANK_STATES]
        kept_ranks = set(sorted({member_rank(replica) for replica in alive})[: group_state.applied_size])
        surplus |= {
            replica.pod.uid
            for replica in alive
            if replica.pod is not None and replica.outcome is None and member_rank(replica) not in kept_ranks
        }
    return surplus


def _delete_obsolete(context: Context) -> tuple[Action, ...]:
    """Return the deletions of pods and services that belong to no replica."""
    observed, replicas, now = context.observed, context.replicas, context.now
    stale = [replica.pod for replica in replicas.all if replica.state is ReplicaState.STALE and replica.pod is not None]
    # Highest index first: rank 0 hosts the rendezvous.
    orphans = sorted(replicas.orphan_pods, key=lambda pod: (pod.group, -pod.index, pod.name))
    used_names = {replica.service_name for replica in replicas.all}
    used_names |= {format_service_name(context.job.naming, pod.name) for pod in replicas.orphan_pods}
    services = [
        DeleteService(name=service.name, uid=service.uid)
        for service in sorted(observed.services.values(), key=lambda service: service.name)
        if service.name not in used_names and not service.is_terminating
    ]
    return (
        *_delete_master_managed_pods(context),
        *delete_pods(observed, stale, "replaced by a newer attempt", now),
        *_delete_orphan_pods(context, orphans),
        *services,
    )
