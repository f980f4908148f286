"""One question to an API server, and the small objects that questions are about."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pliant.kube.transport.base import JSON_CONTENT_TYPE, Request

SPACE = "twin"
IN = f"/api/v1/namespaces/{SPACE}"
JOBS = f"/apis/elasticdeeplearning.ai/v1/namespaces/{SPACE}/aitrainingjobs"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@dataclass(frozen=True)
class Exchange:
    """One request, and what it is about; `{version}` in it is the resource version that was last answered."""

    title: str
    method: str
    path: str
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    media: str = JSON_CONTENT_TYPE
    accept: str = JSON_CONTENT_TYPE

    def request(self, version: str) -> Request:
        """What is sent."""
        body = b"" if self.body is None else self.body if isinstance(self.body, bytes) else _encoded(self.body, version)
        query = {name: value.replace("{version}", version) for name, value in self.query.items()}
        return Request(
            method=self.method, path=self.path, query=query, body=body, content_type=self.media, accept=self.accept
        )


def _encoded(body: Any, version: str) -> bytes:
    return json.dumps(body).replace("{version}", version).encode()


def config_map(name: str = "m", **metadata: Any) -> dict[str, Any]:
    """A small object."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"a": "1", "b": "2"},
    }


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """A small pod."""
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"automountServiceAccountToken": False, "containers": [container], **spec},
    }


def service(name: str = "s", **spec: Any) -> dict[str, Any]:
    """A small service."""
    usual = {"selector": {"app": "p"}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {**usual, **spec}}


def job(name: str = "j", **spec: Any) -> dict[str, Any]:
    """A small training job."""
    template = {"spec": {"containers": [{"name": "aitj-main", "image": "x", "command": ["true"]}]}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": {"worker": {"replicas": 2, "template": template}}, **spec},
    }
