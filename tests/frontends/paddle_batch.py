"""Raw PaddleJobs of batch.paddlepaddle.org as an API server holds them; tests name only what matters."""

from __future__ import annotations

from typing import Any

from pliant.frontends import FRONTENDS
from pliant.model.framework import Rank
from pliant.model.job import Job, ReplicaGroup
from pliant.plugins.registry import framework_of
from tests.builders import StoredJob, parse_stored

PDJ = FRONTENDS["batch.paddlepaddle.org", "PaddleJob"]


def role(replicas: int | None = None, *, pod: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """The members of a role; more fields of their pods, and of the role."""
    spec = {"containers": [{"name": "paddle", "image": "train", "command": ["true"]}], **(pod or {})}
    sized = {} if replicas is None else {"replicas": replicas}
    return {**sized, "template": {"spec": spec}, **fields}


def raw_pdj(
    *, annotations: dict[str, str] | None = None, status: Any = None, uid: str = "job-uid", **spec: Any
) -> dict[str, Any]:
    """An object with these fields in its spec."""
    return {
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {
            "name": "demo",
            "namespace": "team",
            "uid": uid,
            "creationTimestamp": "2026-01-01T12:00:00Z",
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": spec,
        **({} if status is None else {"status": status}),
    }


def parsed(**fields: Any) -> StoredJob:
    """The job that such an object asks for."""
    return parse_stored(PDJ, raw_pdj(**fields))


def group_of(job: Job, name: str = "worker") -> ReplicaGroup:
    """A group that is there."""
    found = job.group(name)
    assert found is not None
    return found


def told(job: Job, group: str, index: int = 0) -> dict[str, str]:
    """All variables of one member."""
    contract = framework_of(job)
    rank = Rank(group=group_of(job, group), index=index, attempt=0)
    return {**contract.shared_environment(job), **contract.environment(job, rank, "paddle")}
