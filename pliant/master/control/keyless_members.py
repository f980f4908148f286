"""Finds the members that an earlier version of the operator started without keys."""

from __future__ import annotations

import msgspec

from pliant.frameworks.master_keys import MASTER_KEY_VARIABLE
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta, Pod, PodStatus
from pliant.kube.resources import PODS
from pliant.master.control.parsing import JOB_LABEL, member_key_and_rank
from pliant.master.model import MasterJobSpec, MemberKey


class _Variable(msgspec.Struct, frozen=True):
    name: str


class _Container(msgspec.Struct, frozen=True):
    env: tuple[_Variable, ...] = ()


class _ContainerList(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _PodVariables(msgspec.Struct, frozen=True):
    """The names of the variables of a pod; a large job has too many pods to decode all of their fields."""

    metadata: ObjectMeta
    spec: _ContainerList = _ContainerList()
    status: PodStatus = PodStatus()

    @property
    def has_key(self) -> bool:
        return any(variable.name == MASTER_KEY_VARIABLE for each in self.spec.containers for variable in each.env)


async def find_keyless_members(client: KubeClient, job: MasterJobSpec) -> frozenset[MemberKey]:
    """Return the members of a job that are alive and whose containers have no key; new members always have one."""
    labels = f"{JOB_LABEL}={job.name}"
    pods = (await client.list(PODS, job.namespace, labels=labels, decode_as=_PodVariables)).items
    keyless = [
        member_key_and_rank(Pod(metadata=pod.metadata))
        for pod in pods
        if any(ref.uid == job.uid for ref in pod.metadata.owner_references)
        and pod.status.phase not in ("Succeeded", "Failed")
        and not pod.has_key
    ]
    return frozenset(key_and_rank[0] for key_and_rank in keyless if key_and_rank is not None)
