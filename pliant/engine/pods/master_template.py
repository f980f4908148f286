"""The pod of a job's own master: what its template leaves out is filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pliant.model.job import Job, ReplicaGroup
from pliant.model.labels import replica_service_name
from pliant.model.operator_config import OperatorConfig


def apply_master_defaults(job: Job, config: OperatorConfig) -> Job:
    """The job with a master that can run: without an image of its own it is ours, started as we are.

    A template without an image leaves out what starts it, too; its arguments are there already. One that names no
    account runs under one that is made for it.
    """
    if not job.has_master:
        return job
    groups = tuple(_with_master_defaults(group, job, config) if group.is_master else group for group in job.groups)
    return replace(job, groups=groups)


def _with_master_defaults(group: ReplicaGroup, job: Job, config: OperatorConfig) -> ReplicaGroup:
    spec: Mapping[str, Any] = group.template.get("spec") or {}
    first, *others = spec.get("containers") or [{}]
    if first.get("image"):
        filled = first
    else:
        filled = {**first, "image": config.master_image or "pliant"}
        if not first.get("command"):
            filled["command"] = list(config.master_command)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or master_account_name(job, group)
    pod = {**spec, "serviceAccountName": account, "containers": [filled, *others]}
    return replace(group, template={**group.template, "spec": pod})


def master_account_name(job: Job, group: ReplicaGroup) -> str:
    """The account that is made for a master, named as it is reached."""
    return replica_service_name(job, group.name, 0)
