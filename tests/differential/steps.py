"""Requests of a sequence, with placeholders for what only the server knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pliant.kube.transport.base import JSON_CONTENT_TYPE, Request

RUN = "{run}"
"""Replaced by a name that is unique to one run of a sequence; namespaces and cluster-scoped objects contain it."""
SPACE = "{run}-a"
OTHER_SPACE = "{run}-b"
CORE = "/api/v1"
A = f"{CORE}/namespaces/{SPACE}"
B = f"{CORE}/namespaces/{OTHER_SPACE}"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
WATCH = "WATCH"
"""The method of a step that opens a watch; its events are compared at the end of the sequence."""

WAIT = "WAIT"
"""The method of a step that waits until kube-apiserver has noticed new policies."""


@dataclass(frozen=True)
class Step:
    """One request.

    Placeholders in path, query and body: `{run}`; `{version}`, `{first}` and `{uid}` of the object of the path, as the
    server has answered them last and first; `{now}`, the newest resourceVersion; and `{continue}`, the newest token.
    """

    method: str
    path: str
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    media: str = JSON_CONTENT_TYPE
    accept: str = JSON_CONTENT_TYPE
    title: str = ""

    def __str__(self) -> str:
        """Return the row of a table of steps."""
        parts = [repr(self.method), repr(self.path)]
        if self.body is not None:
            parts.append(repr(self.body))
        options = {"query": dict(self.query), "media": self.media, "accept": self.accept, "title": self.title}
        defaults = {"query": {}, "media": JSON_CONTENT_TYPE, "accept": JSON_CONTENT_TYPE, "title": ""}
        parts += [f"{name}={value!r}" for name, value in options.items() if value != defaults[name]]
        return f"Step({', '.join(parts)})"

    @property
    def plural(self) -> str:
        """Return the resource and subresource of the path: `pods`, `pods/status`."""
        parts = self.path.strip("/").split("/")[2 if self.path.startswith("/api/") else 3 :]
        if parts[:1] == ["namespaces"] and len(parts) > 2 and parts[2] not in ("status", "finalize"):
            parts = parts[2:]
        return "/".join([*parts[:1], *parts[2:3]])

    @property
    def collection_path(self) -> str:
        """Return the path of the collection that the path is, or in which its object is."""
        parts = self.path.strip("/").split("/")
        root = 2 if self.path.startswith("/api/") else 3
        is_namespaced = parts[root] == "namespaces" and parts[root + 2 : root + 3] not in ([], ["status"], ["finalize"])
        return "/" + "/".join(parts[: root + (3 if is_namespaced else 1)])

    def to_request(self, values: Mapping[str, str]) -> Request:
        """Return the request with the values of the placeholders."""
        is_raw = isinstance(self.body, bytes)
        text = "" if self.body is None or is_raw else json.dumps(self.body, separators=(",", ":"))
        body = self.body if is_raw else substitute(text, values).encode()
        return Request(
            method="GET" if self.method == WATCH else self.method,
            path=substitute(self.path, values),
            query={name: substitute(value, values) for name, value in self.query.items()},
            body=body,
            content_type=self.media,
            accept=self.accept,
        )


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Replace `{name}` by its value."""
    for name, value in values.items():
        if f"{{{name}}}" in text:
            text = text.replace(f"{{{name}}}", value)
    return text


_SUBRESOURCES = ("status", "scale", "finalize", "eviction", "binding", "ephemeralcontainers")


def object_path(step: Step) -> str:
    """Return the path of the object of a step, without its subresource."""
    parts = step.path.split("/")
    if step.method == "POST" and isinstance(step.body, dict):
        metadata = step.body.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return f"{step.path}/{name}"
    return "/".join(parts[:-1]) if parts[-1] in _SUBRESOURCES else step.path
