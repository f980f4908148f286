"""Every label and annotation, and the only maker of object names."""

from __future__ import annotations

from pliant.model.framework import Rank
from pliant.model.job import Group, Job, JobKey, Naming

GROUP_NAME = "GroupName"
GROUP_VALUE = "elasticdeeplearning.ai"
JOB = "TrainingJobName"
REPLICA = "TrainingJobReplicaName"
INDEX = "TrainingJobReplicaIndex"
ATTEMPT = "RestartCount"
JOB_ALIAS = "JobName"
ROLE = "PodRole"
PRIORITY = "priority"
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "pliant"
SERVICE = "pliant/service"
"""By which name others reach a member whom a master looks after: its id changes, its rank may be held twice."""


def member_group(group: str) -> str:
    """A group's name as it appears in object names and labels: lower case, no slashes."""
    return group.lower().replace("/", "-")


def member_name(job: Job, group: str, index: int) -> str:
    """The name of a member's pod: `<job>-<group>-<index>`, unless its kind names pods in another way."""
    return pod_name(job.naming, job.key, group, index)


def service_name(job: Job, group: str, index: int) -> str:
    """The name of a member's service."""
    name = member_group(group)
    if (own := job.naming.services.get(name)) is not None:
        return own.format(job=job.key.name, group=name, index=index)
    return service_of(job.naming, member_name(job, group, index))


def rank_service(job: Job, rank: Rank) -> str:
    """The name of the service by which whoever holds a rank is reached."""
    member = rank.member
    if member is None:
        return service_name(job, rank.group.name, rank.index)
    return member.service or service_name(job, rank.group.name, member.rank)


def member_address(job: Job, group: str, index: int) -> str:
    """The name other members reach a member by: `<service>.<namespace>`."""
    return f"{service_name(job, group, index)}.{job.key.namespace}"


def pod_name(naming: Naming, job: JobKey, group: str, index: int) -> str:
    """The name a kind gives to a member's pod."""
    name = member_group(group)
    return naming.pods.get(name, naming.pod).format(job=job.name, group=name, index=index)


def service_of(naming: Naming, pod: str) -> str:
    """The name a kind gives to the service of a pod."""
    return naming.service.format(pod=pod)


def environment_name(job: JobKey, content: str) -> str:
    """The name of what holds an environment, told from others by its content: `<job>-env-<content>`."""
    return f"{job.name}-env-{content}"


def job_labels(job: Job) -> dict[str, str]:
    """Labels on everything a job owns; the job's own labels come along where they are free."""
    ours = {
        GROUP_NAME: GROUP_VALUE,
        JOB: job.key.name,
        JOB_ALIAS: job.key.name,
        MANAGED_BY: MANAGER,
    }
    return {**job.labels, **ours}


def member_selector(job: Job, group: Group, index: int) -> dict[str, str]:
    """Labels that pick exactly one member of one job, whatever its attempt."""
    return {JOB: job.key.name, REPLICA: member_group(group.name), INDEX: str(index)}


def service_selector(job: Job, rank: Rank) -> dict[str, str]:
    """Labels that pick whoever is reached by the service of a rank."""
    if rank.member is None:
        return member_selector(job, rank.group, rank.index)
    return {JOB: job.key.name, SERVICE: rank_service(job, rank)}


def pod_labels(job: Job, rank: Rank) -> dict[str, str]:
    """Labels on a member's pod."""
    priority = {PRIORITY: job.priority} if job.priority else {}
    return {
        **member_labels(job, rank),
        **rank.group.labels,
        **(rank.group.lead_labels if rank.index == 0 else {}),
        ROLE: member_group(rank.group.name),
        ATTEMPT: str(rank.attempt),
        **priority,
    }


def member_labels(job: Job, rank: Rank) -> dict[str, str]:
    """Labels on the pod and on the service of a member, whatever its attempt."""
    group, member = rank.group, rank.member
    words: dict[str, str | int] = {
        "job": job.key.name,
        "group": member_group(group.name),
        "index": rank.index,
        "pod": member_name(job, group.name, rank.index),
        "rank": rank.index if member is None else member.rank,
        "relaunches": member.relaunches if member else 0,
    }
    kinds_own = {label: value.format(**words) for label, value in job.naming.labels.items()}
    named = {SERVICE: rank_service(job, rank)} if member is not None else {}
    return {**job_labels(job), **kinds_own, **member_selector(job, group, rank.index), **named}
