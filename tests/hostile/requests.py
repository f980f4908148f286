"""Requests with hostile parts: method, path, query, media types and bodies, for every kind that is served."""

from __future__ import annotations

import random
from functools import cache
from typing import Any
from urllib.parse import quote

import msgspec

from pliant.embedded.registry.kinds import Kind
from pliant.kube.transport.base import (
    APPLY_PATCH,
    JSON_CONTENT_TYPE,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Request,
)
from pliant.schemas import kubernetes_schema_names, load_kubernetes_schema
from tests.embedded.test_api_properties import valid_objects
from tests.hostile.objects import mutated, mutations
from tests.hostile.values import TEXTS, Schema, anything, hostile_value

PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)
MEDIA_TYPES = (
    *(
        JSON_CONTENT_TYPE,
        *PATCHES,
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
        "",
        "/",
        ";",
    ),
    *("application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    *("application/json;as", "application/json;charset=\x00", "*/*;q=²"),
)
QUERY_OPTIONS = (
    *("labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch", "watch"),
    *("timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "fieldManager", "force", "dryRun", "pretty"),
    *("propagationPolicy", "gracePeriodSeconds", "orphanDependents", "fieldValidation", "container", "tailLines"),
    *("sinceSeconds", "sinceTime", "previous", "limitBytes", "command", "stdin", "tty", "ports"),
)
SELECTORS = (
    *("a=b", "a in (b,c)", "a notin ()", "!a", "a,", ",", "a in (", "=", "a==b==c", "metadata.name=x", "a b c"),
    *("spec.nodeName=", "status.phase!=x", "x.y.z=1", "a>1", "a<b", "a>" + "9" * 5_000, f"a in ({'b,' * 5_000}b)"),
)
BODIES = (
    *(
        b"",
        b"{",
        b"[",
        b"null",
        b"0",
        b'""',
        b"[" * 5_000,
        b'{"a":' * 5_000,
        b"\xff\xfe",
        b"\x00",
        b"k8s\x00",
        b"k8s\x00\xff",
    ),
    *(b'{"a": 1e999}', b'{"a": NaN}', b'{"a": "\\ud800"}', b"a: *b", b"a: &a [*a]", b"!!python/name:os.system ''"),
    *(
        b'{"a": ' + b"9" * 5_000 + b"}",
        b"a: " + b"9" * 5_000,
        b"a: 0x" + b"f" * 5_000,
        b"a: 1:" + b"59:" * 5_000 + b"1",
    ),
    *(b"- " * 10_000, b"{" * 60_000, b"%YAML 9.9\n---\n", b"a: !!binary x", b"? ? ? ?", b"a:\n" * 10_000),
)
ORDERS = (
    ("v1", "Binding", ("metadata", "target", "name")),
    ("policy/v1", "Eviction", ("metadata", "deleteOptions", "preconditions", "gracePeriodSeconds")),
    ("v1", "DeleteOptions", ("preconditions", "gracePeriodSeconds", "propagationPolicy", "dryRun", "orphanDependents")),
    ("autoscaling/v1", "Scale", ("metadata", "spec", "replicas", "uid", "resourceVersion")),
    ("authentication.k8s.io/v1", "TokenRequest", ("spec", "audiences", "expirationSeconds", "boundObjectRef", "name")),
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview", ("spec", "resourceAttributes", "verb", "name")),
    ("meta.k8s.io/v1", "Table", ("rows",)),
)
VALID = {kind.kind: content for kind, content in valid_objects().items() if kind.kind in kubernetes_schema_names()}
_TYPE_NAMES = frozenset(kubernetes_schema_names())


def hostile_request(kinds: list[Kind], namespace: str, rng: random.Random) -> Request:
    """A request of a tenant who may do everything in a namespace, and to a few objects outside of namespaces."""
    kind = rng.choice(kinds)
    method = rng.choices(["GET", "POST", "PUT", "PATCH", "DELETE", rng.choice(TEXTS[:20])], [3, 6, 2, 4, 1, 0.2])[0]
    return Request(
        method=method,
        path=_path(kind, namespace, method, rng),
        query={rng.choice(QUERY_OPTIONS): _query_value(rng) for _ in range(rng.choice([0, 0, 1, 3]))},
        body=_body(kind, method, rng),
        content_type=_content_type(method, rng),
        accept=rng.choice(MEDIA_TYPES) if rng.random() < 0.2 else JSON_CONTENT_TYPE,
    )


def _path(kind: Kind, namespace: str, method: str, rng: random.Random) -> str:
    prefix = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    place = f"/namespaces/{namespace}" if kind.namespaced else ""
    name = quote(rng.choice(TEXTS), safe=rng.choice(["", "/"])) if rng.random() < 0.1 else f"h-{rng.randrange(4)}"
    # A tenant may not delete all objects outside of its namespace.
    is_collection = method == "POST" or (kind.namespaced and rng.random() < 0.2) or method == "GET"
    path = f"{prefix}{place}/{kind.plural}" + ("" if is_collection and rng.random() < 0.9 else f"/{name}")
    if kind.subresources and rng.random() < 0.2:
        path = f"{prefix}{place}/{kind.plural}/{name}/{rng.choice(kind.subresources)}"
    return path if rng.random() < 0.97 else path + quote(rng.choice(TEXTS), safe="/")


def _query_value(rng: random.Random) -> str:
    return rng.choice([rng.choice(SELECTORS), rng.choice(TEXTS), "true", "1", "-1", "9" * 30, "Orphan", "Background"])


def _content_type(method: str, rng: random.Random) -> str:
    if rng.random() < 0.1:
        return rng.choice(MEDIA_TYPES)
    return rng.choice(PATCHES) if method == "PATCH" else JSON_CONTENT_TYPE


def _body(kind: Kind, method: str, rng: random.Random) -> bytes:
    if rng.random() < 0.1:
        return rng.choice(BODIES)
    if method == "PATCH" and rng.random() < 0.4:
        return msgspec.json.encode([_patch_operation(rng) for _ in range(rng.choice([0, 1, 3]))])
    if rng.random() < 0.15:
        return msgspec.json.encode(_hostile_order(rng))
    return msgspec.json.encode(_hostile_object(kind, rng))


def _hostile_order(rng: random.Random) -> Any:
    """What subresources and deletions take instead of the object."""
    api_version, kind, fields = rng.choice(ORDERS)
    chosen = {name: rng.choice([anything(rng), {name: anything(rng) for name in fields}]) for name in fields}
    return {"apiVersion": api_version, "kind": kind, **chosen}


def _patch_operation(rng: random.Random) -> Any:
    pointers = (
        "",
        "/",
        "/spec",
        "/metadata/name",
        "/metadata/labels/a~1b",
        "/spec/-",
        "/a/0/b",
        "~",
        "/~2",
        "/spec/00",
    )
    operations = ("add", "remove", "replace", "move", "copy", "test", "ADD", "")
    operation = {"op": rng.choice(operations), "path": rng.choice(pointers), "value": anything(rng)}
    return rng.choice([operation, {**operation, "from": rng.choice(pointers)}, anything(rng)])


@cache
def _schema(name: str) -> Schema:
    return load_kubernetes_schema(name) if name in _TYPE_NAMES else {"type": "object"}


def _hostile_object(kind: Kind, rng: random.Random) -> Any:
    schema = _schema(kind.kind)
    if kind.kind in VALID and rng.random() < 0.7:
        named = {**VALID[kind.kind], "metadata": {**VALID[kind.kind]["metadata"], "name": f"h-{rng.randrange(4)}"}}
        return mutated(named, mutations(schema, named, rng))
    content = hostile_value({**schema, "type": "object", "properties": schema.get("properties") or _ANY_FIELDS}, rng)
    if not isinstance(content, dict) or rng.random() < 0.05:
        return content
    metadata = content.get("metadata") if rng.random() < 0.5 else None
    named = {**(metadata if isinstance(metadata, dict) else {}), "name": f"h-{rng.randrange(4)}"}
    return {**content, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": named}


_ANY_FIELDS: Schema = {"spec": {}, "status": {}, "data": {}, "rules": {}, "roleRef": {}, "subjects": {}, "metadata": {}}
