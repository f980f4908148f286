"""What must be created and deleted so that every place has the right occupant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from pliant.engine.context import Context
from pliant.engine.plans.membership import GONE_STATES, PLIANT_MASTER_OPTION, member_rank
from pliant.engine.pods.deletion import delete_pods, delete_pods_permanently
from pliant.engine.pods.manifests import config_map_manifest, pod_manifest, service_manifest
from pliant.engine.pods.master_template import master_account_name
from pliant.engine.pods.replicas import Replica, Replicas, ReplicaState
from pliant.engine.pods.shared_environment import SharedEnvironment, build_shared_environment
from pliant.engine.restart.restarts import backoff_left
from pliant.model.actions import Action, CreateConfigMap, CreatePod, CreateService, DeleteService, GrantMasterAccess
from pliant.model.framework import Framework, Rank
from pliant.model.job import Job, MembershipSource
from pliant.model.labels import format_service_name, normalize_group_name
from pliant.model.observed import ObservedPod
from pliant.model.state import EngineState


def sync_pods(context: Context, framework: Framework) -> tuple[tuple[Action, ...], timedelta | None]:
    """The creations and deletions due now, and when to look again for those that must wait."""
    job, places = context.job, context.replicas.all
    vacant, wait = _select_creatable(context)
    # Names come first: a member that starts must find its peers' names announced.
    # Two may go by one name for a while: one that takes over, and one that is taken over from.
    nameless = {place.service_name: place for place in places if place.service_name not in context.observed.services}
    nameless.pop("", None)
    actions: list[Action] = [
        CreateService(name=name, manifest=service_manifest(job, place.rank)) for name, place in nameless.items()
    ]
    actions += [_grant_master_access(job, place.rank) for place in vacant if place.rank.group.is_master]
    if vacant:
        actions += _create_pods(build_shared_environment(job, framework), vacant)
    return (*actions, *_delete_obsolete(context)), wait


def _grant_master_access(job: Job, rank: Rank) -> GrantMasterAccess:
    """What a master is given before it starts: it may be there already, which costs questions and no harm."""
    ours = master_account_name(job, rank.group)
    account = (rank.group.template.get("spec") or {}).get("serviceAccountName") or ours
    return GrantMasterAccess(service_account=account, should_create_account=account == ours)


def _create_pods(environment: SharedEnvironment, replicas: list[Replica]) -> list[Action]:
    """New members, and first what they read: it may be there already, which costs one question and no harm."""
    pods = [CreatePod(name=place.pod_name, manifest=pod_manifest(environment, place.rank)) for place in replicas]
    if not environment.config_map_name:
        return [*pods]
    return [CreateConfigMap(name=environment.config_map_name, manifest=config_map_manifest(environment)), *pods]


def _select_creatable(context: Context) -> tuple[list[Replica], timedelta | None]:
    """Empty places that need wait for nobody, and the shortest wait of the others."""
    blocked = _blocked_groups(context.job, context.replicas, context.state)
    waits = {group.name: backoff_left(context.state.group(group.name), context.now) for group in context.job.groups}
    absent = [
        place
        for place in context.replicas.all
        if place.state is ReplicaState.ABSENT and place.rank.group.name not in blocked
    ]
    held = [waits[place.rank.group.name] for place in absent if waits[place.rank.group.name]]
    return [place for place in absent if not waits[place.rank.group.name]], min(held, default=None)


def _blocked_groups(job: Job, replicas: Replicas, state: EngineState) -> set[str]:
    """Groups whose last generation has not left entirely: old and new members must never meet."""
    every = {group.name for group in job.groups}
    names = {normalize_group_name(name): name for name in every}
    stale = [place.pod for place in replicas.all if place.state is ReplicaState.STALE and place.pod is not None]
    blocked: set[str] = set()
    for pod in (*stale, *replicas.orphan_pods):
        name = names.get(pod.group)
        # Groups come and go only while a job is suspended, so who has none is from before that.
        if name is None or pod.attempt < state.group(name).job_min_attempt:
            return every
        if pod.attempt < state.group(name).group_min_attempt:
            blocked.add(name)
    return blocked


def _delete_master_managed_pods(context: Context) -> Iterator[Action]:
    """Pods of those whom a master looks after: lost ones, so that it learns of it, and those sent away."""
    watched = [place for place in context.replicas.all if place.rank.group.membership_source is MembershipSource.MASTER]
    if not watched:
        return
    lost = [place.pod for place in watched if place.state is ReplicaState.LOST and place.pod is not None]
    yield from delete_pods(context.observed, lost, "its node is lost", context.now)
    sent = {uid for plan in context.state.plan_executions.values() for uid in plan.removed_pod_uids}
    sent |= _list_surplus_uids(context)
    gone = [place.pod for place in watched if place.pod is not None and place.pod.uid in sent]
    yield from delete_pods_permanently(context.observed, gone, "the job no longer has this member", context.now)


def _delete_orphan_pods(context: Context, orphan_pods: list[ObservedPod]) -> Iterator[Action]:
    """Pods without a place: of those whom a master looks after, one that is not ours would make others."""
    watched = {
        normalize_group_name(group.name)
        for group in context.job.groups
        if group.membership_source is MembershipSource.MASTER
    }
    for pod in orphan_pods:
        go = (
            delete_pods
            if pod.group not in watched or context.job.framework_options.get(PLIANT_MASTER_OPTION)
            else delete_pods_permanently
        )
        yield from go(context.observed, [pod], "the job no longer has this member", context.now)


def _list_surplus_uids(context: Context) -> set[str]:
    """The uids of members that a master has asked for, or made, beyond what a person wants: the highest ranks.

    They are made, and then taken away: a master would wait for whoever was refused to it.
    """
    found: set[str] = set()
    for group in context.job.groups:
        memory = context.state.group(group.name)
        if (
            group.membership_source is not MembershipSource.MASTER
            or not memory.is_user_capped
            or memory.applied_size is None
        ):
            continue
        alive = [place for place in context.replicas.in_group(group) if place.state not in GONE_STATES]
        kept = set(sorted({member_rank(place) for place in alive})[: memory.applied_size])
        found |= {
            place.pod.uid
            for place in alive
            if place.pod is not None and place.outcome is None and member_rank(place) not in kept
        }
    return found


def _delete_obsolete(context: Context) -> tuple[Action, ...]:
    """Deletions of pods and services that have no place any more."""
    seen, roster, now = context.observed, context.replicas, context.now
    stale = [place.pod for place in roster.all if place.state is ReplicaState.STALE and place.pod is not None]
    # Highest index first: rank 0 hosts the rendezvous.
    strays = sorted(roster.orphan_pods, key=lambda pod: (pod.group, -pod.index, pod.name))
    named = {place.service_name for place in roster.all}
    named |= {format_service_name(context.job.naming, pod.name) for pod in roster.orphan_pods}
    services = [
        DeleteService(name=service.name, uid=service.uid)
        for service in sorted(seen.services.values(), key=lambda service: service.name)
        if service.name not in named and not service.is_terminating
    ]
    return (
        *_delete_master_managed_pods(context),
        *delete_pods(seen, stale, "a newer attempt takes its place", now),
        *_delete_orphan_pods(context, strays),
        *services,
    )
