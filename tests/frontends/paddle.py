"""Raw PaddleJobs of paddlepaddle.org as an API server holds them; tests name only what matters."""

from __future__ import annotations

from typing import Any

from pliant.frontends.paddle.job import PaddleJobFrontend
from pliant.model.job import Job, ReplicaGroup
from tests.builders import StoredJob, parse_stored

ENTRY = "python train.py"


def raw_job(
    spec: dict[str, Any] | None = None,
    *,
    trainer: dict[str, Any] | None = None,
    pserver: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    status: Any = None,
) -> dict[str, Any]:
    """An object with two trainers, unless something else is said."""
    roles: dict[str, Any] = {"trainer": {"entrypoint": ENTRY, "min-instance": 2, **(trainer or {})}}
    if pserver is not None:
        roles["pserver"] = pserver
    return {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {
            "name": "fit",
            "namespace": "team",
            "uid": "job-uid",
            "creationTimestamp": "2026-01-01T12:00:00Z",
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": {**roles, **(spec or {})},
        **({} if status is None else {"status": status}),
    }


def parsed(spec: dict[str, Any] | None = None, **parts: Any) -> StoredJob:
    """The job that such an object asks for."""
    return parse_stored(PaddleJobFrontend(), raw_job(spec, **parts))


def group_of(job: Job, name: str = "trainer") -> ReplicaGroup:
    """A group that must be there."""
    found = job.group(name)
    assert found is not None, [group.name for group in job.groups]
    return found


def pod_of(job: Job, name: str = "trainer") -> Any:
    """The pod spec of a group's template."""
    return group_of(job, name).template["spec"]


def container_of(job: Job, name: str = "trainer") -> Any:
    """The container that counts."""
    return pod_of(job, name)["containers"][0]


def variables_of(job: Job, name: str = "trainer") -> dict[str, str]:
    """What the template says to the program."""
    return {each["name"]: each.get("value", "") for each in container_of(job, name)["env"]}
