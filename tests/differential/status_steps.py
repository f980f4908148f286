"""Random requests about the status of an object, and about the finalizers of a namespace."""

from __future__ import annotations

import random
from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.objects.examples import KindExample
from tests.differential.objects.mutations import mutate
from tests.differential.steps import Step


def status_step(rng: random.Random, example: KindExample, path: str, query: dict[str, str]) -> Step | None:
    """Return a request about the status of the object with a path; None if its kind has none."""
    if example.make_status is None:
        return None
    if example.kind == "Namespace" and rng.random() < 0.4:
        return _finalize(rng, path)
    path = f"{path}/status"
    status = example.make_status(rng)
    body: dict[str, Any] = {"status": status}
    if rng.random() < 0.3:
        body = mutate(rng, body)
    # kube-apiserver creates a service without an address if the status of a missing one is replaced or applied.
    whole = 0 if example.kind == "Service" else 2
    match rng.choices(("merge", "strategic", "put", "apply", "json", "get"), (6, 2, whole, whole, 1, 1))[0]:
        case "put":
            return Step("PUT", path, {**_whole(rng, example, path), **body}, query=query)
        case "apply":
            metadata = {"name": path.split("/")[-2]}
            applied = {"apiVersion": example.api_version, "kind": example.kind, "metadata": metadata, **body}
            return Step("PATCH", path, applied, query={**query, "fieldManager": "cyd"}, media=APPLY_PATCH)
        case "json":
            operation = rng.choice(("add", "replace", "remove", "test"))
            patch = [{"op": operation, "path": rng.choice(("/status", "/status/conditions")), "value": status}]
            return Step("PATCH", path, patch, query=query, media=JSON_PATCH)
        case "get":
            return Step("GET", path)
        case kind:
            media = STRATEGIC_MERGE_PATCH if kind == "strategic" and not example.is_custom else MERGE_PATCH
            return Step("PATCH", path, body, query=query, media=media)


def _whole(rng: random.Random, example: KindExample, path: str) -> dict[str, Any]:
    """Return an object whose spec and labels a write of the status must ignore or take over."""
    whole = example.make(rng, "one")
    extra = rng.choice(({}, {"resourceVersion": "{version}"}, {"resourceVersion": "{version}"}))
    return {**whole, "metadata": {**whole["metadata"], "name": path.split("/")[-2], **extra}}


def _finalize(rng: random.Random, path: str) -> Step:
    finalizers = rng.choice(([], [], ["kubernetes"], ["example.org/keep"], ["short"], None))
    metadata: dict[str, Any] = {"name": path.rpartition("/")[2], **rng.choice(({}, {"finalizers": []}))}
    metadata |= rng.choice(
        ({}, {"resourceVersion": "{version}"}, {"resourceVersion": "{first}"}, {"labels": {"a": "b"}})
    )
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "spec": {"finalizers": finalizers}}
    return Step("PUT", f"{path}/finalize", body)
