"""Raw objects of kubeflow.org as an API server holds them; tests name only what matters."""

from __future__ import annotations

from typing import Any

from pliant.frontends import FRONTENDS
from pliant.frontends.kubeflow.job import KubeflowJobFrontend
from tests.builders import StoredJob, parse_stored

KINDS = {end.kind: end for end in FRONTENDS.values() if isinstance(end, KubeflowJobFrontend)}
TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "main", "image": "train", "command": ["true"]}]}}


def raw_of(kind: str, sizes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """An object with groups of these sizes; a mapping instead of a size is a group as written."""
    specs = {
        name: {"template": TEMPLATE, **(each if isinstance(each, dict) else {"replicas": each})}
        for name, each in sizes.items()
    }
    status = fields.pop("status", {})
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {
            "name": "demo",
            "namespace": "team",
            "uid": "job-uid",
            "creationTimestamp": "2026-01-01T12:00:00Z",
        },
        "spec": {KINDS[kind].kubeflow_kind.replica_specs_field: specs, **fields},
        **({"status": status} if status else {}),
    }


def parsed(kind: str, sizes: dict[str, Any], **fields: Any) -> StoredJob:
    """The job that such an object asks for."""
    return parse_stored(KINDS[kind], raw_of(kind, sizes, **fields))
