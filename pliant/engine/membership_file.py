"""The membership as files, for programs that read a host file or run a host discovery script.

The files are in a ConfigMap, which the kubelet replaces as a whole in the pods. It is written before the status that
says so: if the operator stops in between, the next one writes it again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace

from pliant.engine.context import Context
from pliant.engine.members import has_ranks, list_members
from pliant.engine.pods.checkpoint_hook import free_volume_name
from pliant.model.actions import WriteMembershipFile
from pliant.model.framework import Framework
from pliant.model.job import Job, ReplicaGroup
from pliant.model.labels import job_labels, owner_references
from pliant.model.state import EngineState

MEMBERSHIP_DIR, MEMBERSHIP_VOLUME = "/etc/pliant/membership", "pliant-membership"


def mark_membership_file(context: Context, state: EngineState) -> EngineState:
    """Return the state in which the file has the generation of the membership, if the job has such a file."""
    membership = state.membership
    if not context.job.has_membership_file or membership is None or membership.file_generation == membership.generation:
        return state
    return replace(state, membership=replace(membership, file_generation=membership.generation))


def write_membership_file(context: Context, state: EngineState, framework: Framework) -> Iterator[WriteMembershipFile]:
    """Yield the write of the file if it is behind the membership that is about to be stored."""
    stored, membership = context.state.membership, state.membership
    written = stored.file_generation if stored is not None else 0
    if membership is None or membership.file_generation == written:
        return
    job = context.job
    members = list_members(job, state)
    data = {
        "generation": f"{membership.generation}\n",
        "members.json": json.dumps([dataclasses.asdict(member) for member in members]),
        **framework.membership_files(job, members),
    }
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": membership_file_name(job),
            "namespace": job.key.namespace,
            "labels": job_labels(job),
            "ownerReferences": owner_references(job.owner),
        },
        "data": data,
    }
    yield WriteMembershipFile(name=membership_file_name(job), manifest=manifest)


def membership_file_name(job: Job) -> str:
    """Return the name of the ConfigMap, which cannot be predicted before the job exists."""
    return f"{job.key.name}-membership-{blake2b(job.owner.uid.encode(), digest_size=4).hexdigest()}"


def add_membership_file(spec: dict[str, Any], job: Job, group: ReplicaGroup) -> None:
    """Mount the files into a pod; it may start before they exist."""
    if not job.has_membership_file or not has_ranks(group) or not spec.get("containers"):
        return
    volume = free_volume_name(MEMBERSHIP_VOLUME, spec)
    config_map = {"name": membership_file_name(job), "optional": True}
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": volume, "configMap": config_map}]
    mount = {"name": volume, "mountPath": MEMBERSHIP_DIR, "readOnly": True}
    spec["containers"] = [
        {**container, "volumeMounts": [*(container.get("volumeMounts") or ()), mount]}
        for container in spec["containers"]
    ]
