"""Every label and annotation, and the only maker of object names."""

from __future__ import annotations

from pliant.model.framework import Rank
from pliant.model.job import Group, Job, JobKey

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


def member_group(group: str) -> str:
    """A group's name as it appears in object names and labels: lower case, no slashes."""
    return group.lower().replace("/", "-")


def member_name(job: JobKey, group: str, index: int) -> str:
    """The name of a member's pod and of its service: `<job>-<group>-<index>`."""
    return f"{job.name}-{member_group(group)}-{index}"


def member_address(job: JobKey, group: str, index: int) -> str:
    """The name other members reach a member by: `<pod>.<namespace>`."""
    return f"{member_name(job, group, index)}.{job.namespace}"


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


def pod_labels(job: Job, rank: Rank) -> dict[str, str]:
    """Labels on a member's pod."""
    priority = {PRIORITY: job.priority} if job.priority else {}
    return {
        **job_labels(job),
        **member_selector(job, rank.group, rank.index),
        ROLE: member_group(rank.group.name),
        ATTEMPT: str(rank.attempt),
        **priority,
    }
