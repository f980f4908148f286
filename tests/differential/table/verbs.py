"""Create, get, update, patch and delete of a small object."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.steps import PARTIAL, SPACE, TABLE, A, Step

_MAPS = f"{A}/configmaps"
_ONE = f"{_MAPS}/m"
_STRICT = {"fieldValidation": "Strict"}


def config_map(name: str = "m", **metadata: Any) -> dict[str, Any]:
    """Return a ConfigMap with two keys."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"a": "1", "b": "2"},
    }


def _merge(body: Any, path: str = _ONE, **query: str) -> Step:
    return Step("PATCH", path, body, query=query, media=MERGE_PATCH)


_UNKNOWN_FIELD = {**config_map("n"), "dta": {}}
SEQUENCES: dict[str, list[Step]] = {
    "create": [
        Step("POST", _MAPS, config_map()),
        Step("POST", _MAPS, config_map()),
        Step("POST", _MAPS, {**config_map(), "metadata": {"generateName": "zz-"}}),
        Step("POST", _MAPS, {**config_map(), "metadata": {}}),
        Step("POST", _MAPS, config_map("Bad_Name")),
        Step("POST", _MAPS, config_map("n", labels={"a b": "c d"})),
        Step("POST", _MAPS, config_map("n", namespace="other")),
        Step("POST", "/api/v1/namespaces/none/configmaps", config_map("n")),
        Step("POST", _MAPS, {**config_map("n"), "kind": "Secret"}),
        Step("POST", _MAPS, {"metadata": {"name": "without-type"}}),
        Step("POST", _MAPS, {"kind": "ConfigMap", "metadata": {"name": "without-version"}}),
        Step("POST", _MAPS, config_map("n", resourceVersion="7")),
        Step("POST", _MAPS, b"{nonsense"),
        Step("POST", _MAPS, []),
        Step("POST", _MAPS, {**config_map("n"), "data": {"a": 1}}),
        Step("POST", _MAPS, _UNKNOWN_FIELD, query=_STRICT),
        Step("POST", _MAPS, _UNKNOWN_FIELD, query={"fieldValidation": "Ignore", "dryRun": "All"}),
        Step("POST", _MAPS, config_map("n"), query={"fieldValidation": "Sometimes"}),
        Step("POST", _MAPS, config_map("n"), query={"dryRun": "Some"}),
        Step("POST", _MAPS, config_map("n"), query={"fieldManager": "x" * 200}),
        Step("POST", _MAPS, b"a: 1", media="text/plain"),
        Step("POST", _MAPS, config_map("n", finalizers=["short"])),
        Step("POST", _MAPS, config_map("n", ownerReferences=[{"apiVersion": "", "kind": "", "name": "", "uid": ""}])),
    ],
    "get": [
        Step("POST", _MAPS, config_map()),
        Step("GET", _ONE),
        Step("GET", _ONE, accept=TABLE),
        Step("GET", _ONE, accept=PARTIAL),
        Step("GET", f"{_MAPS}/none"),
        Step("GET", f"{_ONE}/nonsense"),
        Step("GET", f"{A}/nonsenses"),
        Step("POST", _ONE, config_map()),
        Step("PUT", _MAPS, config_map()),
    ],
    "update": [
        Step("POST", _MAPS, config_map()),
        Step("PUT", _ONE, {**config_map(), "data": {"c": "3"}}),
        Step("PUT", _ONE, config_map(resourceVersion="{version}")),
        Step("PUT", _ONE, config_map(resourceVersion="1")),
        Step("PUT", _ONE, config_map("other")),
        Step("PUT", f"{_MAPS}/none", config_map("none")),
        Step("PUT", _ONE, config_map(uid="1234")),
        Step("PUT", _ONE, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
        Step("PUT", f"{A}/services/s", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
    ],
    "merge patch": [
        Step("POST", _MAPS, config_map()),
        _merge({"data": {"d": "4", "a": None}}),
        _merge({}),
        _merge({"metadata": {"name": "z"}}),
        _merge({"metadata": {"resourceVersion": "1"}}),
        _merge({"metadata": {"uid": "1234"}}),
        _merge({"data": [1]}),
        _merge([1]),
        _merge({"data": {}}, f"{_MAPS}/none"),
        _merge({"dta": {}}, **_STRICT),
        _merge({"data": {}}, force="true"),
        Step("PATCH", _ONE, {}, media="application/nonsense"),
    ],
    "JSON patch": [
        Step("POST", _MAPS, config_map(labels={"x": "y"})),
        Step(
            "PATCH",
            _ONE,
            [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/e", "value": "5"}],
            media=JSON_PATCH,
        ),
        Step("PATCH", _ONE, [{"op": "test", "path": "/data/a", "value": "0"}], media=JSON_PATCH),
        Step("PATCH", _ONE, [{"op": "remove", "path": "/x/y"}], media=JSON_PATCH),
        Step("PATCH", _ONE, [{"op": "move", "from": "/data/e", "path": "/data/f"}], media=JSON_PATCH),
        Step("PATCH", _ONE, [{"op": "copy", "from": "/data/f", "path": "/data/g"}], media=JSON_PATCH),
        Step("PATCH", _ONE, [{"op": "replace", "path": "/metadata/labels", "value": {}}], media=JSON_PATCH),
        Step("PATCH", _ONE, [{"op": "nonsense", "path": "/data"}], media=JSON_PATCH),
        Step("PATCH", _ONE, {"op": "add"}, media=JSON_PATCH),
    ],
    "strategic merge patch": [
        Step("POST", _MAPS, config_map()),
        Step("PATCH", _ONE, {"data": {"f": "6", "a": None}}, media=STRATEGIC_MERGE_PATCH),
        Step("PATCH", _ONE, {"$patch": "replace", "data": {"z": "1"}}, media=STRATEGIC_MERGE_PATCH),
    ],
    "server-side apply": [
        Step(
            "PATCH",
            _ONE,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"g": "7"}},
            query={"fieldManager": "ada"},
            media=APPLY_PATCH,
        ),
        Step("PATCH", _ONE, config_map(), media=APPLY_PATCH),
        Step("PATCH", _ONE, config_map(), query={"fieldManager": "bob"}, media=APPLY_PATCH),
        Step("PATCH", _ONE, {**config_map(), "data": {"g": "8"}}, query={"fieldManager": "bob"}, media=APPLY_PATCH),
        Step(
            "PATCH",
            _ONE,
            {**config_map(), "data": {"g": "8"}},
            query={"fieldManager": "bob", "force": "true"},
            media=APPLY_PATCH,
        ),
        Step("PATCH", _ONE, {"kind": "ConfigMap", "apiVersion": "v1"}, query={"fieldManager": "a"}, media=APPLY_PATCH),
        Step("PATCH", _ONE, {**config_map(), "data": {"g": 8}}, query={"fieldManager": "bob"}, media=APPLY_PATCH),
        Step("POST", _MAPS, config_map("created")),
        Step(
            "PATCH",
            f"{_MAPS}/created",
            {**config_map("created"), "data": {"a": "2"}},
            query={"fieldManager": "ada"},
            media=APPLY_PATCH,
        ),
    ],
    "delete": [
        Step("POST", _MAPS, config_map()),
        Step("POST", _MAPS, config_map("kept", finalizers=["example.org/keep"])),
        Step("DELETE", f"{_MAPS}/none"),
        Step("DELETE", _ONE, {"preconditions": {"uid": "1234"}}),
        Step("DELETE", _ONE, {"preconditions": {"resourceVersion": "1"}}),
        Step("DELETE", _ONE, {"propagationPolicy": "Sideways"}),
        Step("DELETE", _ONE, {"propagationPolicy": "Background", "orphanDependents": True}),
        Step("DELETE", _ONE, query={"dryRun": "All"}),
        Step("DELETE", _ONE),
        Step("DELETE", f"{_MAPS}/kept"),
        Step("DELETE", f"{_MAPS}/kept"),
        Step("POST", _MAPS, config_map("kept")),
        _merge({"metadata": {"finalizers": ["b.org/c"]}}, f"{_MAPS}/kept"),
        _merge({"metadata": {"finalizers": None}}, f"{_MAPS}/kept"),
        Step("GET", f"{_MAPS}/kept"),
    ],
    "delete a collection": [
        *(Step("POST", _MAPS, config_map(name, labels={"all": "yes"})) for name in ("a", "b", "c")),
        Step("DELETE", _MAPS, {"preconditions": {"uid": "other"}}, query={"labelSelector": "all"}),
        Step("DELETE", _MAPS, query={"labelSelector": "all"}),
        Step("GET", _MAPS, query={"labelSelector": "all"}),
    ],
    "namespaces": [
        Step("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}}),
        Step("POST", "/api/v1/namespaces", {"metadata": {"name": "{run}-new"}}),
        Step("GET", "/api/v1/namespaces/{run}-new", accept=TABLE),
        Step("DELETE", "/api/v1/namespaces/{run}-new"),
        Step("POST", "/api/v1/namespaces/{run}-new/configmaps", config_map()),
        Step("DELETE", "/api/v1/namespaces/default"),
    ],
}
