"""Raw AITrainingJobs as an API server holds them; tests name only what matters."""

from __future__ import annotations

from typing import Any

CONTAINER: dict[str, Any] = {"name": "trainer", "image": "train"}


def raw_group(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": list(containers or (CONTAINER,))}}, **fields}


def raw_job(
    groups: dict[str, Any] | None = None, *, name: str = "demo", status: Any = None, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name, "namespace": "team", "uid": "job-uid", "creationTimestamp": "2026-01-01T12:00:00Z"},
        "spec": {"replicaSpecs": {"worker": raw_group()} if groups is None else groups, **spec},
        **({} if status is None else {"status": status}),
    }
