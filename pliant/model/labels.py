"""Labels, selectors and names of the objects that jobs own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pliant.model.framework import Rank
from pliant.model.job import ALL_REPLICAS, Job, JobKey, Naming, Owner, ReplicaGroup

API_GROUP_LABEL = "GroupName"
API_GROUP_LABEL_VALUE = "elasticdeeplearning.ai"
JOB_NAME_LABEL = "TrainingJobName"
REPLICA_GROUP_LABEL = "TrainingJobReplicaName"
REPLICA_INDEX_LABEL = "TrainingJobReplicaIndex"
ATTEMPT_LABEL = "RestartCount"
JOB_NAME_ALIAS_LABEL = "JobName"
POD_ROLE_LABEL = "PodRole"
PRIORITY_LABEL = "priority"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY_VALUE = "pliant"
JOB_UID_LABEL = "pliant/job-uid"
"""The UID of the job: two jobs of different kinds may have the same name."""
TEMPLATE_HASH_ANNOTATION = "pliant/template-hash"
"""A hash of the pod template in the spec of the job, which tells whether a pod without an owner can be adopted."""
MEMBER_SERVICE_LABEL = "pliant/service"
"""The service name of a member of a master-managed group: its ID changes, and two members may share a rank."""
WORKSPACE_ANNOTATION = "pliant/workspace"
"""The directory on this machine in which the programs of a job start on an embedded cluster; others ignore it."""
EVICTION_LABEL, EVICTION_BLOCKED, EVICTION_ALLOWED = "pliant/eviction", "blocked", "allowed"
"""Whether the disruption budget of a job selects the pod: not after the replica has saved its state for a drain."""
EXCLUDED_NODES_ANNOTATION = "pliant/excluded-nodes"
"""The nodes that the required affinity of a pod excludes because of a device fault, separated by commas."""

ACKNOWLEDGED_CHECKPOINT_ANNOTATION = "pliant/acknowledged-checkpoint"
"""The latest checkpoint request for which a replica has saved its state; 0 if it acknowledges requests only."""
_MAX_CHECKPOINT_DIGITS = 16


def excluded_nodes(annotations: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(filter(None, annotations.get(EXCLUDED_NODES_ANNOTATION, "").split(",")))


def acknowledged_checkpoint(annotations: Mapping[str, str]) -> int | None:
    """Return the request that a replica has acknowledged; None if there is none, as users can write anything."""
    text = annotations.get(ACKNOWLEDGED_CHECKPOINT_ANNOTATION, "")
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_CHECKPOINT_DIGITS
    return int(text) if is_number else None


@lru_cache(maxsize=1024)
def normalize_group_name(group_name: str) -> str:
    """Return the group name as used in object names and labels: lower case, no slashes."""
    return group_name.lower().replace("/", "-")


def replica_pod_name(job: Job, group: str, index: int) -> str:
    return format_pod_name(job.naming, job.key, group, index)


def replica_service_name(job: Job, group: str, index: int) -> str:
    name = normalize_group_name(group)
    if (override := job.naming.service_overrides.get(name)) is not None:
        return override.format(job=job.key.name, group=name, index=index)
    return format_service_name(job.naming, replica_pod_name(job, group, index))


def job_service_name(job: Job) -> str:
    """Return the name of the service that all replicas share; empty if each has its own."""
    return job.naming.job_service.format(job=job.key.name)


def has_own_service(job: Job, group: str, index: int) -> bool:
    naming = job.naming
    return not naming.job_service or index < naming.own_services.get(normalize_group_name(group), 0)


def replica_host(job: Job, group: str, index: int) -> str:
    """Return the name by which replicas in the same namespace reach this one."""
    name = replica_service_name(job, group, index)
    return name if has_own_service(job, group, index) else f"{name}.{job_service_name(job)}"


def replica_names(job: Job, group: ReplicaGroup) -> Iterator[tuple[int, str, str]]:
    """Yield the index of each replica of a group, its pod name and the name of its own service, which may be empty."""
    naming, job_name, name = job.naming, job.key.name, normalize_group_name(group.name)
    own_services = naming.own_services.get(name, 0) if naming.job_service else ALL_REPLICAS
    pod_format, service_override = naming.pod_overrides.get(name, naming.pod), naming.service_overrides.get(name)
    for index in group.indexes:
        pod = pod_format.format(job=job_name, group=name, index=index)
        if index >= own_services:
            yield index, pod, ""
        elif service_override is None:
            yield index, pod, format_service_name(naming, pod)
        else:
            yield index, pod, service_override.format(job=job_name, group=name, index=index)


def rank_own_service(job: Job, rank: Rank) -> str:
    """Return the name of the service of one replica; empty if it has none of its own."""
    member = rank.member
    index = rank.index if member is None else member.rank
    has_own = (member is not None and member.service) or has_own_service(job, rank.group.name, index)
    return rank_service_name(job, rank) if has_own else ""


def rank_host(job: Job, rank: Rank) -> str:
    """Return the name by which replicas in the same namespace reach this one."""
    return rank_own_service(job, rank) or f"{rank_service_name(job, rank)}.{job_service_name(job)}"


def rank_service_name(job: Job, rank: Rank) -> str:
    """Return the name of a replica in DNS: that of its own service, or its host name in the service of the job."""
    member = rank.member
    if member is None:
        return replica_service_name(job, rank.group.name, rank.index)
    return member.service or replica_service_name(job, rank.group.name, member.rank)


def replica_dns_name(job: Job, group: str, index: int) -> str:
    """Return the DNS name of a replica: `<service>.<namespace>` or `<pod>.<service>.<namespace>`."""
    return f"{replica_host(job, group, index)}.{job.key.namespace}"


def format_pod_name(naming: Naming, job_key: JobKey, group: str, index: int) -> str:
    name = normalize_group_name(group)
    return naming.pod_overrides.get(name, naming.pod).format(job=job_key.name, group=name, index=index)


def format_service_name(naming: Naming, pod_name: str) -> str:
    return naming.service.format(pod=pod_name)


def job_labels(job: Job) -> dict[str, str]:
    """Return the labels of all objects of a job: the labels of the job and, with precedence, those of Pliant."""
    return {
        **job.labels,
        API_GROUP_LABEL: API_GROUP_LABEL_VALUE,
        JOB_NAME_LABEL: job.key.name,
        JOB_NAME_ALIAS_LABEL: job.key.name,
        JOB_UID_LABEL: job.owner.uid,
        MANAGED_BY_LABEL: MANAGED_BY_VALUE,
    }


@lru_cache(maxsize=256)
def owner_references(owner: Owner) -> tuple[Mapping[str, Any], ...]:
    """Return the `ownerReferences` of the objects of a job, which all of them share."""
    return (
        {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        },
    )


def replica_selector(job: Job, group: ReplicaGroup, index: int) -> dict[str, str]:
    """Return labels that select the pods of one replica, whatever their attempt."""
    return {**job_selector(job), REPLICA_GROUP_LABEL: normalize_group_name(group.name), REPLICA_INDEX_LABEL: str(index)}


def job_selector(job: Job) -> dict[str, str]:
    """Return labels that select the pods of one job, and not those of another kind with the same name."""
    return {JOB_NAME_LABEL: job.key.name, JOB_UID_LABEL: job.owner.uid}


def scalable_group_selector(job: Job) -> str:
    """Return the label selector of the pods that `kubectl scale` counts; empty if no group can be scaled."""
    return group_selector(job, job.scalable_group) if job.scalable_group else ""


def group_selector(job: Job, group: str) -> str:
    """Return the label selector of the pods of a group, as text."""
    selector = {**job_selector(job), REPLICA_GROUP_LABEL: normalize_group_name(group)}
    return ",".join(f"{label}={value}" for label, value in selector.items())


def service_selector(job: Job, rank: Rank) -> dict[str, str]:
    if rank.member is None:
        return replica_selector(job, rank.group, rank.index)
    return {**job_selector(job), MEMBER_SERVICE_LABEL: rank_service_name(job, rank)}


def pod_labels(job: Job, rank: Rank) -> dict[str, str]:
    priority = {PRIORITY_LABEL: job.priority_class} if job.priority_class else {}
    is_protected = job.has_disruption_budget and not (rank.group.is_master or rank.group.is_control)
    eviction = {EVICTION_LABEL: EVICTION_BLOCKED} if is_protected else {}
    return {
        **replica_labels(job, rank),
        **eviction,
        **rank.group.labels,
        **(rank.group.first_pod_labels if rank.index == 0 else {}),
        POD_ROLE_LABEL: normalize_group_name(rank.group.name),
        ATTEMPT_LABEL: str(rank.attempt),
        **priority,
    }


def replica_labels(job: Job, rank: Rank) -> dict[str, str]:
    """Return the labels that the pod and the service of a replica share, whatever the attempt."""
    labels = job_labels(job)
    if job.naming.labels:
        labels |= _kind_labels(job, rank)
    labels |= replica_selector(job, rank.group, rank.index)
    if rank.member is not None:
        labels[MEMBER_SERVICE_LABEL] = rank_service_name(job, rank)
    return labels


def _kind_labels(job: Job, rank: Rank) -> dict[str, str]:
    group, member = rank.group, rank.member
    parameters: dict[str, str | int] = {
        "job": job.key.name,
        "group": normalize_group_name(group.name),
        "index": rank.index,
        "pod": replica_pod_name(job, group.name, rank.index),
        "rank": rank.index if member is None else member.rank,
        "relaunches": member.relaunches if member else 0,
    }
    return {label: value.format(**parameters) for label, value in job.naming.labels.items()}
