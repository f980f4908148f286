"""Who a pod is in its job, whoever made it: the operator, or the job's own master."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pliant.cli.jobs import Found
from pliant.controllers.observe import Members
from pliant.kube.objects import Pod
from pliant.model import labels
from pliant.model.job import Job

_ANY_NUMBER = 987654321
"""Stands for the number of a member while its name becomes a pattern."""


def selector_of(one: Found) -> str:
    """Labels that all pods of a job carry, also those that its master made."""
    label = one.frontend.foreign_pods
    return f"{label or labels.JOB}={one.key.name}"


def members_of(job: Job, pods: Iterable[Pod]) -> Members:
    """The pods of a job the way decisions see them: ours, and those that its master made."""
    own: list[Pod] = []
    foreign: list[Pod] = []
    for pod in pods:
        is_ours = not job.naming.type_label or pod.metadata.labels.get(labels.MANAGED_BY) == labels.MANAGER
        (own if is_ours else foreign).append(pod)
    return Members(pods=own, foreign=foreign)


def group_of(job: Job | None, pod: Pod) -> str:
    """The group of a pod, in the words of labels; empty if it says none."""
    return _told(pod.metadata.labels, labels.REPLICA, job.naming.type_label if job else "")


def number_of(job: Job | None, pod: Pod) -> str:
    """Its number in that group."""
    return _told(pod.metadata.labels, labels.INDEX, job.naming.id_label if job else "")


def title_of(job: Job | None, pod: Pod) -> str:
    """What people call a member: `worker-1`."""
    return f"{group_of(job, pod)}-{number_of(job, pod)}"


def is_pod_of(job: Job, name: str) -> bool:
    """Whether a pod of that name is or was one of the job's."""
    patterns = (
        re.escape(labels.member_name(job, group.name, _ANY_NUMBER)).replace(str(_ANY_NUMBER), r"\d+")
        for group in job.groups
    )
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _told(marks: Mapping[str, str], usual: str, masters: str) -> str:
    return marks.get(usual) or marks.get(masters, "")
