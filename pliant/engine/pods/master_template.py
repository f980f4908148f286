"""Defaults of the pod template of a job's master."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pliant.model.job import Job, ReplicaGroup
from pliant.model.labels import replica_service_name
from pliant.model.operator_config import OperatorConfig


def apply_master_defaults(job: Job, config: OperatorConfig) -> Job:
    """Fill in the image, the command and the service account of the master.

    A template without an image gets Pliant's master; its arguments are already in the template.
    """
    if not job.has_master:
        return job
    groups = tuple(_with_master_defaults(group, job, config) if group.is_master else group for group in job.groups)
    return replace(job, groups=groups)


def _with_master_defaults(group: ReplicaGroup, job: Job, config: OperatorConfig) -> ReplicaGroup:
    spec: Mapping[str, Any] = group.template.get("spec") or {}
    first, *others = spec.get("containers") or [{}]
    if not first.get("image"):
        command = first.get("command") or list(config.master_command)
        first = {**first, "image": config.master_image or "pliant", "command": command}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or master_account_name(job, group)
    pod = {**spec, "serviceAccountName": account, "containers": [first, *others]}
    return replace(group, template={**group.template, "spec": pod})


def master_account_name(job: Job, group: ReplicaGroup) -> str:
    """Return the name of the service account that is created for a master: that of its service."""
    return replica_service_name(job, group.name, 0)
