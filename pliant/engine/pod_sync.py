"""The pods, services and ConfigMaps to create and delete so that every replica has its pod."""

from __future__ import annotations

from datetime import timedelta

from pliant.engine.context import Context
from pliant.engine.plans.master_pods import delete_member_pods, delete_orphan_pods, prepare_master_access
from pliant.engine.pods.deletion import delete_pods
from pliant.engine.pods.disruption_budget import allow_evictions, create_disruption_budget
from pliant.engine.pods.manifests import (
    config_map_manifest,
    job_service_manifest,
    nodes_to_exclude,
    pod_manifest,
    service_manifest,
)
from pliant.engine.pods.replicas import Replica, Replicas, ReplicaState
from pliant.engine.pods.shared_environment import SharedEnvironment, build_shared_environment
from pliant.engine.restart.restarts import backoff_left
from pliant.model.actions import Action, CreateConfigMap, CreatePod, CreateService, DeleteService, PodDeletionReason
from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.model.labels import format_service_name, job_service_name, normalize_group_name
from pliant.model.observed import ObservedPod
from pliant.model.state import EngineState


def sync_active_pods(context: Context, framework: Framework) -> tuple[tuple[Action, ...], timedelta | None]:
    return sync_pods(context, context.replicas, framework)


def sync_pods(
    context: Context, replicas: Replicas, framework: Framework
) -> tuple[tuple[Action, ...], timedelta | None]:
    """Return the creations and deletions that are due, and the backoff of those that are not due yet."""
    job, services = context.job, context.observed.services
    creatable, wait = _select_creatable(context, replicas)
    # Services come first, so that a starting replica can resolve the names of its peers.
    # During a migration two members share one service name.
    missing = {each.service_name: each for each in replicas.all if each.service_name not in services}
    missing.pop("", None)
    actions: list[Action] = [
        CreateService(name=name, manifest=service_manifest(job, replica.rank)) for name, replica in missing.items()
    ]
    if (shared := _job_service_in_use(context, replicas)) and shared not in services:
        actions.append(CreateService(name=shared, manifest=job_service_manifest(job)))
    actions += prepare_master_access(job, creatable)
    if creatable:
        avoided = context.before.avoided_nodes if context.before is not None else ()
        environment = build_shared_environment(job, framework, avoided, context.observed.unusable_nodes)
        actions += _create_pods(environment, creatable)
        actions += [create_disruption_budget(job)] if job.has_disruption_budget else []
    actions += allow_evictions(context, replicas.all)
    return (*actions, *delete_obsolete(context, replicas)), wait


def _job_service_in_use(context: Context, replicas: Replicas) -> str:
    """Return the name of the service of the job; empty if it has none, or if no replica needs it."""
    needs_it = any(not each.service_name for each in replicas.all if each.pod is None or not each.pod.is_external)
    return job_service_name(context.job) if needs_it or replicas.orphan_pods else ""


def _create_pods(environment: SharedEnvironment, replicas: list[Replica]) -> list[Action]:
    """Return the creations of the pods, preceded by that of their ConfigMap, which may exist already."""
    pods = [CreatePod(name=replica.pod_name, manifest=pod_manifest(environment, replica.rank)) for replica in replicas]
    if not environment.config_map_name:
        return [*pods]
    return [CreateConfigMap(name=environment.config_map_name, manifest=config_map_manifest(environment)), *pods]


def _select_creatable(context: Context, replicas: Replicas) -> tuple[list[Replica], timedelta | None]:
    """Return the absent replicas that can be created now, and the shortest backoff of the others."""
    blocked = _blocked_groups(context.job, replicas, context.state)
    backoffs = {group.name: backoff_left(context.state.group(group.name), context.now) for group in context.job.groups}
    absent = [
        (replica, backoffs[replica.rank.group.name])
        for replica in replicas.all
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


def delete_obsolete(context: Context, replicas: Replicas) -> tuple[Action, ...]:
    """Return the deletions of pods and services that belong to no replica."""
    stale = [replica.pod for replica in replicas.all if replica.state is ReplicaState.STALE and replica.pod is not None]
    # Highest index first: rank 0 hosts the rendezvous.
    orphans = sorted(replicas.orphan_pods, key=lambda pod: (pod.group, -pod.index, pod.name))
    used_names = {replica.service_name for replica in replicas.all} | {_job_service_in_use(context, replicas)}
    used_names |= {format_service_name(context.job.naming, pod.name) for pod in replicas.orphan_pods}
    services = [
        DeleteService(name=service.name, uid=service.uid)
        for service in sorted(context.observed.services.values(), key=lambda service: service.name)
        if service.name not in used_names and not service.is_terminating
    ]
    return (
        *delete_member_pods(context, replicas),
        *delete_pods(stale, PodDeletionReason.REPLACED, context.config, context.now),
        *delete_pods(_misplaced(context, replicas), PodDeletionReason.RESCHEDULED, context.config, context.now),
        *delete_orphan_pods(context, orphans),
        *services,
    )


def _misplaced(context: Context, replicas: Replicas) -> list[ObservedPod]:
    """Return the waiting pods that must exclude other nodes by now; the affinity of a pod cannot change."""
    unusable = context.observed.unusable_nodes
    return [
        replica.pod
        for replica in replicas.list_engine_managed()
        if replica.state is ReplicaState.PENDING
        and replica.pod is not None
        and replica.pod.excluded_nodes != nodes_to_exclude(replica.rank, unusable)
    ]
