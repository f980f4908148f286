"""Every label and annotation, and the only maker of object names."""

from __future__ import annotations

from pliant.model.framework import Rank
from pliant.model.job import Job, JobKey, Naming, ReplicaGroup

GROUP_NAME_LABEL = "GroupName"
GROUP_NAME_VALUE = "elasticdeeplearning.ai"
JOB_NAME_LABEL = "TrainingJobName"
REPLICA_NAME_LABEL = "TrainingJobReplicaName"
REPLICA_INDEX_LABEL = "TrainingJobReplicaIndex"
RESTART_COUNT_LABEL = "RestartCount"
JOB_ALIAS_LABEL = "JobName"
POD_ROLE_LABEL = "PodRole"
PRIORITY_LABEL = "priority"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY_VALUE = "pliant"
SERVICE_LABEL = "pliant/service"
"""By which name others reach a member whom a master looks after: its id changes, its rank may be held twice."""


def normalize_group_name(group_name: str) -> str:
    """A group's name as it appears in object names and labels: lower case, no slashes."""
    return group_name.lower().replace("/", "-")


def replica_pod_name(job: Job, group: str, index: int) -> str:
    """The name of a member's pod: `<job>-<group>-<index>`, unless its kind names pods in another way."""
    return format_pod_name(job.naming, job.key, group, index)


def replica_service_name(job: Job, group: str, index: int) -> str:
    """The name of a member's service."""
    name = normalize_group_name(group)
    if (own := job.naming.service_overrides.get(name)) is not None:
        return own.format(job=job.key.name, group=name, index=index)
    return format_service_name(job.naming, replica_pod_name(job, group, index))


def rank_service_name(job: Job, rank: Rank) -> str:
    """The name of the service by which whoever holds a rank is reached."""
    member = rank.member
    if member is None:
        return replica_service_name(job, rank.group.name, rank.index)
    return member.service or replica_service_name(job, rank.group.name, member.rank)


def replica_address(job: Job, group: str, index: int) -> str:
    """The name other members reach a member by: `<service>.<namespace>`."""
    return f"{replica_service_name(job, group, index)}.{job.key.namespace}"


def format_pod_name(naming: Naming, job_key: JobKey, group: str, index: int) -> str:
    """The name a kind gives to a member's pod."""
    name = normalize_group_name(group)
    return naming.pod_overrides.get(name, naming.pod).format(job=job_key.name, group=name, index=index)


def format_service_name(naming: Naming, pod_name: str) -> str:
    """The name a kind gives to the service of a pod."""
    return naming.service.format(pod=pod_name)


def environment_config_map_name(job_key: JobKey, content_hash: str) -> str:
    """The name of what holds an environment, told from others by its content: `<job>-env-<content>`."""
    return f"{job_key.name}-env-{content_hash}"


def job_labels(job: Job) -> dict[str, str]:
    """Labels on everything a job owns; the job's own labels come along where they are free."""
    ours = {
        GROUP_NAME_LABEL: GROUP_NAME_VALUE,
        JOB_NAME_LABEL: job.key.name,
        JOB_ALIAS_LABEL: job.key.name,
        MANAGED_BY_LABEL: MANAGED_BY_VALUE,
    }
    return {**job.labels, **ours}


def replica_selector(job: Job, group: ReplicaGroup, index: int) -> dict[str, str]:
    """Labels that pick exactly one member of one job, whatever its attempt."""
    return {
        JOB_NAME_LABEL: job.key.name,
        REPLICA_NAME_LABEL: normalize_group_name(group.name),
        REPLICA_INDEX_LABEL: str(index),
    }


def service_selector(job: Job, rank: Rank) -> dict[str, str]:
    """Labels that pick whoever is reached by the service of a rank."""
    if rank.member is None:
        return replica_selector(job, rank.group, rank.index)
    return {JOB_NAME_LABEL: job.key.name, SERVICE_LABEL: rank_service_name(job, rank)}


def pod_labels(job: Job, rank: Rank) -> dict[str, str]:
    """Labels on a member's pod."""
    priority = {PRIORITY_LABEL: job.priority_class} if job.priority_class else {}
    return {
        **replica_labels(job, rank),
        **rank.group.labels,
        **(rank.group.first_pod_labels if rank.index == 0 else {}),
        POD_ROLE_LABEL: normalize_group_name(rank.group.name),
        RESTART_COUNT_LABEL: str(rank.attempt),
        **priority,
    }


def replica_labels(job: Job, rank: Rank) -> dict[str, str]:
    """Labels on the pod and on the service of a member, whatever its attempt."""
    group, member = rank.group, rank.member
    words: dict[str, str | int] = {
        "job": job.key.name,
        "group": normalize_group_name(group.name),
        "index": rank.index,
        "pod": replica_pod_name(job, group.name, rank.index),
        "rank": rank.index if member is None else member.rank,
        "relaunches": member.relaunches if member else 0,
    }
    kinds_own = {label: value.format(**words) for label, value in job.naming.labels.items()}
    named = {SERVICE_LABEL: rank_service_name(job, rank)} if member is not None else {}
    return {**job_labels(job), **kinds_own, **replica_selector(job, group, rank.index), **named}
