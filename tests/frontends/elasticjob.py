"""Raw ElasticJobs and ScalePlans as an API server holds them; tests name only what matters."""

from __future__ import annotations

from typing import Any

from pliant.frontends import FRONTENDS
from pliant.model.framework import Rank
from pliant.model.job import Job, ReplicaGroup
from pliant.model.state import GroupMember
from pliant.plugins.registry import framework_of
from tests.builders import StoredJob, parse_stored

EJ = FRONTENDS["elastic.iml.github.io", "ElasticJob"]


def role(replicas: int | None = None, *, pod: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """The members of a type; more fields of their pods, and of the type."""
    spec = {"containers": [{"name": "main", "image": "train", "command": ["true"]}], **(pod or {})}
    sized = {} if replicas is None else {"replicas": replicas}
    return {**sized, "template": {"spec": spec}, **fields}


def master(restarts: int | None = None, **container: Any) -> dict[str, Any]:
    """A master whose container says this."""
    counted = {} if restarts is None else {"restartCount": restarts}
    return {"template": {"spec": {"containers": [{"name": "main", **container}]}}, **counted}


def raw_ej(
    *, name: str = "demo", labels: Any = None, annotations: Any = None, status: Any = None, **spec: Any
) -> dict[str, Any]:
    """An object with these fields in its spec; one worker of an all-reduce job, unless it says otherwise."""
    usual = {"distributionStrategy": "AllreduceStrategy", "replicaSpecs": {"worker": role(1)}}
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": "job-uid",
            "creationTimestamp": "2026-01-01T12:00:00Z",
            **({"labels": labels} if labels else {}),
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": {**usual, **spec},
        **({} if status is None else {"status": status}),
    }


def replicas(**types: Any) -> dict[str, Any]:
    """What is written of each type; `dlrover_master` for the master."""
    return {name.replace("_", "-"): each for name, each in types.items()}


def parsed(**fields: Any) -> StoredJob:
    """The job that such an object asks for."""
    return parse_stored(EJ, raw_ej(**fields))


def group_of(job: Job, name: str = "worker") -> ReplicaGroup:
    """A group that is there."""
    found = job.group(name)
    assert found is not None
    return found


def main_of(job: Job, name: str = "worker") -> dict[str, Any]:
    """The first container of a group."""
    return dict(group_of(job, name).template["spec"]["containers"][0])


def told(job: Job, group: str, index: int = 0, member: GroupMember | None = None) -> dict[str, str]:
    """All variables of one member."""
    contract = framework_of(job)
    rank = Rank(group=group_of(job, group), index=index, attempt=0, member=member)
    return {**contract.shared_environment(job), **contract.environment(job, rank, "main")}
