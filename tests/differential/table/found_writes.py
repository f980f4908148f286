"""Sequences of writes of all kinds that once had different answers: patches, applies, dry runs and statuses."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.steps import A, Step

_MAPS = f"{A}/configmaps"
_PODS = f"{A}/pods"
_QUOTAS = f"{A}/resourcequotas"
_SECRETS = f"{A}/secrets"
_REVISIONS = "/apis/apps/v1/namespaces/{run}-a/controllerrevisions"
_GADGETS = "/apis/example.org/v1/namespaces/{run}-a/gadgets"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/{run}-a/deployments"
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
_DEPLOYMENT = {"metadata": {"name": "one"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}}
_OWNER = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}
_DELETED = {"deletionTimestamp": "2000-01-01T00:00:00Z"}
_METADATA = {"labels": {"a": "c"}, "annotations": {"a": "b"}, "finalizers": ["a/b"], "ownerReferences": [_OWNER]}


def _gadget(name: str = "one", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": name}, **fields}


def _apply(path: str, body: Any, manager: str = "ada", **query: str) -> Step:
    return Step("PATCH", path, body, query={"fieldManager": manager, **query}, media=APPLY_PATCH)


def _patch(path: str, body: Any, media: str = MERGE_PATCH, **query: str) -> Step:
    return Step("PATCH", path, body, query=query, media=media)


def _merges(path: str, *bodies: Any) -> list[Step]:
    return [_patch(path, body, STRATEGIC_MERGE_PATCH) for body in bodies]


SEQUENCES: dict[str, list[Step]] = {
    "the time of a deletion that has begun is kept": [
        Step("POST", _MAPS, {"metadata": {"name": "m", "finalizers": ["a/b"]}}),
        _patch(f"{_MAPS}/m", {"metadata": _DELETED}),
        Step("DELETE", f"{_MAPS}/m"),
        _apply(f"{_MAPS}/m", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _DELETED}),
        _patch(f"{_MAPS}/m", {"metadata": _DELETED}),
        _patch(f"{_MAPS}/m", {"metadata": {**_DELETED, "finalizers": ["a/b", "a/c"]}}),
        _patch(f"{_MAPS}/m", {"metadata": {**_DELETED, "deletionGracePeriodSeconds": 7}}),
        Step("PUT", f"{_MAPS}/m", {"metadata": {"name": "m", "finalizers": ["a/b"], **_DELETED}}),
        Step("POST", _QUOTAS, {"metadata": {"name": "q", "finalizers": ["a/b"]}}),
        Step("DELETE", f"{_QUOTAS}/q"),
        _patch(f"{_QUOTAS}/q/status", {"metadata": _DELETED}),
        Step("POST", _GADGETS, _gadget("g", spec={"size": 1})),
        _patch(f"{_GADGETS}/g", {"metadata": {"finalizers": ["a/b"]}}),
        Step("DELETE", f"{_GADGETS}/g"),
        _patch(f"{_GADGETS}/g", {"metadata": _DELETED}),
        _patch(f"{_GADGETS}/g/status", {"metadata": _DELETED}),
    ],
    "strategic patches that make no sense": [
        Step("POST", _PODS, {"metadata": {"name": "p", "finalizers": ["a/b"]}, "spec": _TEMPLATE["spec"]}),
        *_merges(
            f"{_PODS}/p",
            {"$patch": "x"},
            {"spec": {"containers": [{"name": "c", "$patch": "x"}]}},
            {"spec": {"containers": [{"$patch": "delete"}]}},
            {"spec": {"containers": [{}]}},
            {"spec": {"containers": [1]}},
            {"spec": {"containers": [["x"]]}},
            {"spec": {"imagePullSecrets": [{"name": "c"}, 1]}},
            {"spec": {"$retainKeys": 5}},
            {"spec": {"$setElementOrder/containers": 5}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": 5}},
            {"metadata": {"$setElementOrder/finalizers": ["x"], "finalizers": ["y"]}},
            {"metadata": {"finalizers": [1]}},
            {"$unknown": []},
        ),
    ],
    "dry runs show what is not stored": [
        Step("POST", _MAPS, {"metadata": {"name": "one", "resourceVersion": "x"}}, query={"dryRun": "All"}),
        Step("POST", _MAPS, {"metadata": {"name": "one", "selfLink": "/x"}}),
        _patch(f"{_MAPS}/one", {"metadata": {"selfLink": "/x"}}, dryRun="All"),
        Step("PUT", f"{_MAPS}/one", {"metadata": {"name": "one", "selfLink": "/x"}}, query={"dryRun": "All"}),
    ],
    "a collection is deleted up to the first error": [
        *(Step("POST", _MAPS, {"metadata": {"name": name}}) for name in ("two", "one")),
        Step("GET", _MAPS),
        Step("DELETE", _MAPS, {"preconditions": {"resourceVersion": "{version}"}}),
        Step("GET", f"{_MAPS}/one"),
        Step("GET", f"{_MAPS}/two"),
    ],
    "empty maps of bytes of immutable objects": [
        step
        for path, kind in ((_MAPS, "ConfigMap"), (_SECRETS, "Secret"))
        for step in (
            Step("POST", path, {"metadata": {"name": "one"}, "immutable": True}),
            _patch(f"{path}/one", {"data": {}}),
            _patch(f"{path}/one", {"binaryData": {}}, STRATEGIC_MERGE_PATCH),
            _patch(f"{path}/one", {"data": {}, "immutable": False}),
            Step("PUT", f"{path}/one", {"metadata": {"name": "one"}, "immutable": True, "data": {}}),
            _apply(f"{path}/one", {"apiVersion": "v1", "kind": kind, "metadata": {"name": "one"}, "data": {}}),
            _apply(f"{path}/one", {"apiVersion": "v1", "kind": kind, "metadata": {"name": "one"}, "data": None}),
        )
    ],
    "dry runs of statuses and applies show links": [
        Step("POST", _DEPLOYMENTS, _DEPLOYMENT),
        _patch(f"{_DEPLOYMENTS}/one/status", {"metadata": {"selfLink": "/x"}}, dryRun="All"),
        Step("POST", _MAPS, {"metadata": {"name": "one", "selfLink": "/x"}}, {"dryRun": "All"}),
        _apply(
            f"{_MAPS}/one",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "selfLink": "/x"}},
            dryRun="All",
        ),
    ],
    "a status of a custom object with another UID": [
        Step("POST", _GADGETS, _gadget(spec={"size": 1})),
        _patch(f"{_GADGETS}/one/status", {"metadata": {"uid": "x"}}),
        Step("PUT", f"{_GADGETS}/one/status", {**_gadget(), "metadata": {"name": "one", "uid": "x"}}),
    ],
    "applied numbers in objects of any type": [
        _apply(
            f"{_REVISIONS}/one",
            {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {"name": "one"},
                "data": {"a": 2**63, "b": 2.0, "c": 1.5},
                "revision": 1,
            },
        )
    ],
    "statuses are written with metadata": [
        Step("POST", _DEPLOYMENTS, _DEPLOYMENT),
        _patch(f"{_DEPLOYMENTS}/one/status", {"metadata": _METADATA}),
        _patch(f"{_DEPLOYMENTS}/one/status", {"metadata": {"deletionGracePeriodSeconds": 5}}),
        Step("PUT", f"{_DEPLOYMENTS}/one/status", {"metadata": {"name": "one"}, "status": {}}),
        Step("POST", _QUOTAS, {"metadata": {"name": "one"}}),
        _patch(f"{_QUOTAS}/one/status", {"metadata": _METADATA}),
    ],
    "numbers of more than 64 bits": [
        Step("POST", _QUOTAS, {"metadata": {"name": "one"}, "spec": {"hard": {"pods": 2**63}}}),
        *_merges(f"{_QUOTAS}/one", {"spec": {"hard": {"pods": 2**63}}}),
        Step("POST", _GADGETS, _gadget(spec={"size": 1, "kept": {"a": 2**64}})),
        _apply(f"{_GADGETS}/two", _gadget("two", spec={"size": 1, "kept": {"a": 2**64}, "level": 2.0})),
    ],
    "embedded metadata, times and keys that are null": [
        Step("POST", _GADGETS, _gadget(spec={"size": 1, "template": {"metadata": 5}})),
        _apply(f"{_GADGETS}/one", _gadget(spec={"size": 1, "template": {"metadata": {"labels": {"a": 5}}}})),
        Step("POST", _GADGETS, _gadget(spec={"size": 1})),
        _apply(f"{_GADGETS}/one", {**_gadget(), "metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}),
        _apply(f"{A}/serviceaccounts/one", {"apiVersion": "v1", "kind": "ServiceAccount", "secrets": [{"name": None}]}),
        _apply(f"{A}/serviceaccounts/one", {"apiVersion": "v1", "kind": "ServiceAccount", "secrets": [{}]}),
    ],
    "what an apply empties is null": [
        Step("POST", _GADGETS, _gadget(spec={"size": 1, "tags": [], "ports": []})),
        _apply(f"{_GADGETS}/one", _gadget(spec={"size": 1, "tags": ["a"]})),
        _apply(f"{_GADGETS}/one", _gadget(spec={"size": 1})),
        _apply(f"{_GADGETS}/one", _gadget(spec={"size": 1, "ports": None}), "bob"),
    ],
    "a namespace that was applied without fields": [
        _apply("/api/v1/namespaces/{run}-two", {"apiVersion": "v1", "kind": "Namespace"}),
        _apply("/api/v1/namespaces/{run}-two", {"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": []}}),
    ],
}
