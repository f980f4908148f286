"""Random requests about the subresources of objects: status, scale and the ephemeral containers of pods."""

from __future__ import annotations

import random
from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.objects.containers import make_ephemeral_container
from tests.differential.objects.examples import KindExample
from tests.differential.objects.mutations import mutate
from tests.differential.steps import PARTIAL, TABLE, Step

Query = dict[str, str]
_STATUS_NOT_APPLIED = ("ValidatingAdmissionPolicy", "CustomResourceDefinition")
"""kube-apiserver creates a missing policy whose status is applied, and no manager owns the first status of a CRD."""


def make_status_step(rng: random.Random, example: KindExample, path: str, query: Query) -> Step:
    """Read or write the status of the object at a path, or finalize a namespace."""
    assert example.make_status is not None
    if example.kind == "Namespace" and rng.random() < 0.4:
        return _finalize(rng, path)
    name, path = path.rpartition("/")[2], f"{path}/status"
    status: dict[str, Any] = {"status": example.make_status(rng)}
    # kube-apiserver creates a service without an address if the status of a missing one is replaced or applied.
    whole = 0 if example.kind == "Service" else 2
    applied = 0 if example.kind in _STATUS_NOT_APPLIED else whole
    match rng.choices(("merge", "strategic", "put", "apply", "json", "get"), (6, 2, whole, applied, 1, 1))[0]:
        case "get":
            # kube-apiserver has no table of the status of a CRD.
            table = TABLE if example.kind != "CustomResourceDefinition" else PARTIAL
            return Step("GET", path, accept=rng.choice(("application/json", "application/json", table, PARTIAL)))
        case "put":
            return Step("PUT", path, {**_make_whole(rng, example, name), **_mutate(rng, status)}, query=query)
        case "apply":
            typed = {"apiVersion": example.api_version, "kind": example.kind, "metadata": {"name": name}}
            return Step(
                "PATCH", path, {**typed, **_mutate(rng, status)}, query=_apply_query(rng, query), media=APPLY_PATCH
            )
        case "json":
            field = rng.choice(("", *(f"/{each}" for each in sorted(status["status"]))))
            value = status["status"].get(field[1:]) if field else status["status"]
            patch = [
                {"op": rng.choice(("add", "replace", "remove", "test")), "path": f"/status{field}", "value": value}
            ]
            return Step("PATCH", path, patch, query=query, media=JSON_PATCH)
        case kind:
            media = STRATEGIC_MERGE_PATCH if kind == "strategic" and not example.is_custom else MERGE_PATCH
            return Step("PATCH", path, _mutate(rng, status), query=query, media=media)


def _make_whole(rng: random.Random, example: KindExample, name: str) -> dict[str, Any]:
    """Return an object whose spec and labels a write of the status must ignore or take over."""
    whole = example.make(rng, name)
    extra = rng.choice(
        ({}, {"resourceVersion": "{version}"}, {"resourceVersion": "{version}"}, {"resourceVersion": "1"})
    )
    name = name if rng.random() < 0.97 else "another"
    return {**whole, "metadata": {**whole["metadata"], "name": name, **extra}}


def _apply_query(rng: random.Random, query: Query) -> Query:
    return {**query, "fieldManager": rng.choice(("ada", "bob", "cyd")), **rng.choice(({}, {"force": "true"}))}


def _finalize(rng: random.Random, path: str) -> Step:
    finalizers = rng.choice(([], [], ["kubernetes"], ["example.org/keep"], ["short"], None))
    metadata: dict[str, Any] = {"name": path.rpartition("/")[2], **rng.choice(({}, {"finalizers": []}))}
    metadata |= rng.choice(({}, {"resourceVersion": "{version}"}, {"resourceVersion": "1"}, {"labels": {"a": "b"}}))
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "spec": {"finalizers": finalizers}}
    return Step("PUT", f"{path}/finalize", body)


def _mutate(rng: random.Random, body: dict[str, Any]) -> dict[str, Any]:
    return mutate(rng, body) if rng.random() < 0.3 else body


def make_scale_step(rng: random.Random, example: KindExample, path: str, query: Query) -> Step:
    """Read or write the Scale of the object at a path."""
    if rng.random() < 0.35:
        return Step("GET", f"{path}/scale")
    replicas = rng.choice((0, 1, 3, 3, -1, "x", None, 2**31))
    body: dict[str, Any] = {"spec": {"replicas": replicas}}
    kind = rng.random()
    if kind < 0.5:
        return Step("PATCH", f"{path}/scale", body, query=query, media=MERGE_PATCH)
    metadata: dict[str, Any] = {"name": path.rpartition("/")[2]}
    typed = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata}
    if kind < 0.8:
        metadata |= rng.choice(
            ({}, {}, {"resourceVersion": "{version}"}, {"resourceVersion": "1"}, {"uid": "other"}, {"name": "x"})
        )
        whole = {**typed, **body}
        return Step("PUT", f"{path}/scale", _mutate(rng, whole), query=query)
    # kube-apiserver fails to convert an applied Scale of a custom object (500), unless it changes nothing.
    if kind < 0.95 and not example.is_custom:
        return Step("PATCH", f"{path}/scale", {**typed, **body}, query=_apply_query(rng, query), media=APPLY_PATCH)
    operation = {"op": "replace", "path": "/spec/replicas", "value": replicas}
    return Step("PATCH", f"{path}/scale", [operation], query=query, media=JSON_PATCH)


def make_ephemeral_step(rng: random.Random, example: KindExample, path: str, query: Query) -> Step:
    """Add ephemeral containers to the pod at a path."""
    if rng.random() < 0.1:
        return Step("GET", f"{path}/ephemeralcontainers")
    containers = [make_ephemeral_container(rng) for _ in range(rng.choice((1, 1, 2)))]
    body = _mutate(rng, {"spec": {"ephemeralContainers": containers}})
    if rng.random() < 0.2:
        whole = _make_whole(rng, example, path.rpartition("/")[2])
        spec = {**whole["spec"], **body["spec"]} if isinstance(body.get("spec"), dict) else whole["spec"]
        return Step("PUT", f"{path}/ephemeralcontainers", {**whole, "spec": spec}, query=query)
    media = STRATEGIC_MERGE_PATCH if rng.random() < 0.7 else MERGE_PATCH
    return Step("PATCH", f"{path}/ephemeralcontainers", body, query=query, media=media)
