"""Sequences that the campaign found and shrank; the differences they showed are mended."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.steps import A, B, Step

_GADGETS = "/apis/example.org/v1/namespaces/{run}-a/gadgets"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/{run}-a/leases"
_LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "one"}}
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "{run}-one"}}
_ADA = {"fieldManager": "ada"}


def _gadget(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "one"}, **fields}


def _secret(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, **fields}


def _patches(path: str, media: str, *bodies: Any) -> list[Step]:
    return [Step("PATCH", path, body, media=media) for body in bodies]


def _apply(path: str, body: Any, **query: str) -> Step:
    return Step("PATCH", path, body, query={**_ADA, **query}, media=APPLY_PATCH)


SEQUENCES: dict[str, list[Step]] = {
    "json patches of the whole object, and operations without a value": [
        Step("POST", f"{A}/configmaps", {"metadata": {"name": "one"}}),
        *_patches(
            f"{A}/configmaps/one",
            JSON_PATCH,
            [{"op": "remove", "path": ""}],
            [{"op": "add", "path": ""}],
            [{"op": "add", "path": "", "value": {}}, {"op": "replace", "path": "/metadata", "value": []}],
            [{"op": "replace", "path": "", "value": 5}],
            [{"op": "replace", "path": "", "value": []}],
            [{"op": "move", "path": "", "from": "/metadata"}],
            [{"op": "copy", "path": "/a", "from": ""}],
            [{"op": "add", "path": "/data"}],
            [{"op": "test", "path": "/data"}],
            [{"op": "test", "path": "/metadata/name"}],
            [{"op": 5, "path": "/a"}],
            [{"op": "add", "path": 5}],
            [None],
        ),
    ],
    "patches of the type": [
        Step("POST", f"{A}/configmaps", {"metadata": {"name": "one"}}),
        *_patches(f"{A}/configmaps/one", MERGE_PATCH, {"apiVersion": None}, {"kind": None}, {"kind": "X"}),
        *_patches(f"{A}/configmaps/one", STRATEGIC_MERGE_PATCH, {"kind": "X"}, {"apiVersion": "v2"}),
        Step("PUT", f"{_GADGETS}/one", {**_gadget(), "kind": "X"}),
        Step("POST", _GADGETS, {**_gadget(), "kind": "X"}),
        Step("POST", _GADGETS, {**_gadget(), "kind": 5}),
        Step("POST", _GADGETS.replace("{run}-a", "missing"), {**_gadget(), "kind": "X"}),
        Step("POST", _GADGETS, _gadget(spec={"size": 1})),
        *_patches(f"{_GADGETS}/one", MERGE_PATCH, {"kind": "X"}, {"kind": 5}, {"metadata": 5}),
        _apply(f"{_GADGETS}/one", {**_gadget(), "kind": "X"}),
        _apply(f"{A}/secrets/one", {"apiVersion": "v1"}),
    ],
    "objects without a name have other errors, too": [
        Step("POST", _CRDS, {}),
        Step("POST", _CRDS, {"spec": {"versions": [{"name": "a.b"}]}}),
        Step("POST", _GADGETS, {**_gadget(), "metadata": {"finalizers": ["bad name/x"]}}),
        Step("POST", _CRDS, {"spec": {"versions": [{"name": "v1", "storage": True}, {"name": "v1", "storage": True}]}}),
        Step("POST", _GADGETS, {**_gadget(spec={"size": 1, "even": 1.5}), "metadata": None}),
        Step("POST", f"{B}/secrets", {"metadata": {"labels": {"a b": "c"}}}),
        Step("POST", f"{A}/limitranges", {"spec": {"limits": [{}]}}, query={"dryRun": "All"}),
    ],
    "applied configurations of wrong types": [
        _apply(f"{_GADGETS}/one", _gadget(spec="text")),
        _apply(f"{_GADGETS}/one", _gadget(spec={"ports": 100})),
        _apply(f"{_GADGETS}/one", _gadget(spec={"size": 1, "tags": ["a", "a"]})),
        _apply(f"{_GADGETS}/one", _gadget(spec={"size": None})),
        _apply(f"{_GADGETS}/one", _gadget(spec={"size": 1, "choice": {"b": None}})),
        _apply(f"{_GADGETS}/one", _gadget(spec={"size": 1, "colour": None})),
        _apply(f"{A}/secrets/one", _secret(metadata={"name": "one", "labels": {"a": None}})),
        _apply(f"{A}/secrets/two", _secret(metadata={"name": "two", "uid": "some-uid"})),
    ],
    "the status of a custom object": [
        Step("POST", _GADGETS, _gadget(spec={"size": 1})),
        *_patches(
            f"{_GADGETS}/one/status",
            MERGE_PATCH,
            {"status": "text"},
            {"status": {"replicas": "x"}},
            {"status": {"replicas": 1.5}},
            {"status": {"selector": 5, "replicas": True}},
        ),
    ],
    "custom objects without an apiVersion, and lists of wrong items": [
        Step("POST", _GADGETS, _gadget(spec={"size": 1})),
        *_patches(f"{_GADGETS}/one", MERGE_PATCH, {"apiVersion": None}),
        Step("POST", _GADGETS, _gadget(spec={"size": 1, "colour": 5, "ports": [[]], "tags": [1, 1]})),
        Step("POST", _GADGETS, _gadget(spec={"ports": [{}, {}]})),
    ],
    "an empty field that a manager applied is replaced by its members": [
        _apply(f"{_LEASES}/one", {**_LEASE, "spec": {}}),
        _apply(f"{_LEASES}/one", {**_LEASE, "spec": {"holderIdentity": "me"}}),
        _apply(f"{_LEASES}/one", {**_LEASE, "spec": None}),
        Step("POST", _LEASES, {"metadata": {"name": "two"}, "spec": {"leaseTransitions": -1}}),
    ],
    "applied resource versions": [
        Step("POST", f"{A}/secrets", _secret()),
        _apply(f"{A}/secrets/one", _secret(metadata={"name": "one", "resourceVersion": "1"})),
        _apply(f"{A}/secrets/one", _secret(metadata={"name": "one", "resourceVersion": "x"})),
        _apply(f"{A}/secrets/one", _secret(metadata={"name": "one", "uid": "other"})),
        _apply(f"{A}/secrets/two", _secret(metadata={"name": "two", "resourceVersion": "1"})),
    ],
    "values that an empty object has": [
        Step("POST", _CLASSES, {"metadata": {"name": "{run}-one"}}),
        _apply(f"{_CLASSES}/{{run}}-one", {**_CLASS, "value": 1000}),
        _apply(f"{_CLASSES}/{{run}}-one", {**_CLASS, "preemptionPolicy": "Never"}),
    ],
    "names in other fields": [
        Step("POST", "/api/v1/namespaces", {"metadata": {"name": "a%b"}}),
        Step("POST", f"{A}/resourcequotas", {"metadata": {"name": "a/b"}, "spec": {"hard": {"unknown": 1}}}),
        Step("POST", f"{A}/events", {"metadata": {"name": "a/b"}, "involvedObject": {"namespace": "other"}}),
    ],
    "generations and finalizers that a client sets": [
        Step("POST", f"{A}/configmaps", {"metadata": {"name": "one", "generation": 7}}),
        Step("PUT", f"{A}/configmaps/one", {"metadata": {"name": "one", "generation": 8}}),
        Step(
            "POST",
            "/apis/policy/v1/namespaces/{run}-a/poddisruptionbudgets",
            {"metadata": {"name": "one", "finalizers": ["short"]}},
        ),
    ],
    "immutable fields and the UID": [
        Step("POST", f"{A}/secrets", _secret(data={"b": []})),
        *_patches(
            f"{A}/secrets/one", STRATEGIC_MERGE_PATCH, {"type": "kubernetes.io/ssh-auth", "metadata": {"uid": "other"}}
        ),
        Step("POST", f"{A}/secrets", _secret(metadata={"name": "one", "generateName": "zz-"})),
    ],
}
