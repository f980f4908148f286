"""The pod of a job's own master: what its template leaves out is filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pliant.model.job import Group, Job
from pliant.model.labels import service_name
from pliant.model.rules import Rules


def furnished(job: Job, rules: Rules) -> Job:
    """The job with a master that can run: without an image of its own it is ours, started as we are.

    A template without an image leaves out what starts it, too; its arguments are there already. One that names no
    account runs under one that is made for it.
    """
    if not job.has_master:
        return job
    groups = tuple(_furnished(group, job, rules) if group.is_control else group for group in job.groups)
    return replace(job, groups=groups)


def _furnished(group: Group, job: Job, rules: Rules) -> Group:
    spec: Mapping[str, Any] = group.template.get("spec") or {}
    first, *others = spec.get("containers") or [{}]
    if first.get("image"):
        filled = first
    else:
        filled = {**first, "image": rules.master_image or "pliant"}
        if not first.get("command"):
            filled["command"] = list(rules.master_command)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or account_of(job, group)
    pod = {**spec, "serviceAccountName": account, "containers": [filled, *others]}
    return replace(group, template={**group.template, "spec": pod})


def account_of(job: Job, group: Group) -> str:
    """The account that is made for a master, named as it is reached."""
    return service_name(job, group.name, 0)
