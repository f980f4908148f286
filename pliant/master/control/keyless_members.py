"""Finds the members that an earlier version of the operator started without keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pliant.frameworks.master_keys import MASTER_KEY_VARIABLE
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS
from pliant.master.control.parsing import JOB_LABEL, member_key_and_rank
from pliant.master.model import MasterJobSpec, MemberKey


async def find_keyless_members(client: KubeClient, job: MasterJobSpec) -> frozenset[MemberKey]:
    """Return the members of a job that are alive and whose containers have no key; new members always have one."""
    pods = (await client.list(PODS, job.namespace, labels=f"{JOB_LABEL}={job.name}")).items
    keys = (_member_key(raw) for raw in pods if _belongs_to(raw, job.uid) and _is_keyless(raw))
    return frozenset(key for key in keys if key is not None)


def _member_key(raw: Mapping[str, Any]) -> MemberKey | None:
    key_and_rank = member_key_and_rank(msgspec.convert(raw, Pod))
    return key_and_rank[0] if key_and_rank is not None else None


def _belongs_to(raw: Mapping[str, Any], job_uid: str) -> bool:
    return any(ref.get("uid") == job_uid for ref in raw["metadata"].get("ownerReferences") or ())


def _is_keyless(raw: Mapping[str, Any]) -> bool:
    if (raw.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    containers = raw["spec"].get("containers") or ()
    names = {variable.get("name") for container in containers for variable in container.get("env") or ()}
    return MASTER_KEY_VARIABLE not in names
