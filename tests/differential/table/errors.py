"""Requests that API servers answer with 500, in plain text, or with a conflict that names the key in the storage."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from tests.differential.steps import WATCH, A, Step

_GADGETS = "/apis/example.org/v1/namespaces/{run}-a/gadgets"
_JOBS = "/apis/batch/v1/namespaces/{run}-a/jobs"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/{run}-a/leases"
_MAPS = f"{A}/configmaps"
_ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{run}-a/roles"
_RULE = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
_ROLE_FIELDS: dict[str, dict[str, Any]] = {
    "absent": {},
    "null": {"rules": None},
    "empty": {"rules": []},
    "full": {"rules": [_RULE]},
}
_SLICE = "/apis/discovery.k8s.io/v1/namespaces/{run}-a/endpointslices/one"
_SLICE_TYPE = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "one"}}
_TOO_LARGE = "99999999999999999999"


def _map(name: str = "one", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **fields}


def _gadget(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "one"}, **fields}


def _apply(path: str, body: Any, manager: str = "ada") -> Step:
    return Step("PATCH", path, body, query={"fieldManager": manager}, media=APPLY_PATCH)


def _apply_role(name: str, rules: Any, manager: str = "ada") -> Step:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules}
    return _apply(f"{_ROLES}/{name}", role, manager)


def _merge(path: str, *bodies: Any) -> list[Step]:
    return [Step("PATCH", path, body, media=MERGE_PATCH) for body in bodies]


def _list(**query: str) -> Step:
    return Step("GET", _MAPS, query=query)


_CONFIGURATIONS: tuple[dict[str, Any], ...] = (
    *({"data": 5}, {"data": {"a": 5}}, {"data": {"a": "2"}, "unknown": 1}, {"immutable": "x"}),
    *({"metadata": 5}, {"metadata": {"name": 5}}, {"metadata": {"name": "one", "labels": {"a": []}}}),
    *({"kind": "Secret"}, {"kind": None}, {"apiVersion": "v2"}, {"apiVersion": 5}, {"metadata": None}),
    *({"metadata": {"name": "two"}}, {"metadata": {"name": "two"}, "data": {"a": "2"}}),
    *({"metadata": {"name": "one", "namespace": "x"}}, {"binaryData": {"a": "2$"}}),
    *({"metadata": {"name": "one", "namespace": "x"}, "data": {"a": "2"}}, {"data": {"a": "2"}}),
    *({"metadata": {"name": "one", "managedFields": each}} for each in ([], 5, [{"manager": "x"}])),
    *({"metadata": {"name": "one", "creationTimestamp": each}} for each in (5, "x")),
)
_SPECS: tuple[dict[str, Any], ...] = (
    *({"email": 5}, {"when": 5}, {"when": []}, {"blob": 5}, {"percent": []}, {"size": 1.5}),
    *({"tags": ["a", "a"]}, {"tags": ["a", None]}, {"tags": [{}]}, {"atom": {"z": 1}}, {"ports": [{}]}),
    *({"free": 5}, {"unknown": 1}, {}),
)
_NO_VERSIONS: tuple[Any, ...] = ({}, [], 0, "")

SEQUENCES: dict[str, list[Step]] = {
    "applied configurations of wrong types, before conflicts are looked for": [
        _apply(f"{_MAPS}/one", _map(data={"a": "1"})),
        *(_apply(f"{_MAPS}/one", _map(**fields), "bob") for fields in _CONFIGURATIONS),
    ],
    "applied custom objects of wrong types": [
        *(_apply(f"{_GADGETS}/one", _gadget(spec={"size": 1, **fields})) for fields in _SPECS),
        _apply(f"{_GADGETS}/one", {**_gadget(spec={"size": 2}), "metadata": {"name": "two"}}, "bob"),
        _apply(f"{_GADGETS}/one", _gadget(spec={"size": 1}, metadata={"name": "one", "creationTimestamp": 5})),
        _apply(f"{_GADGETS}/one/status", _gadget(status={"conditions": [{"status": "x"}]})),
    ],
    "invalid resource versions": [
        Step("POST", _MAPS, _map()),
        *(Step("GET", f"{_MAPS}/one", query={"resourceVersion": version}) for version in ("x", "-1", _TOO_LARGE)),
        *(_list(resourceVersion=version) for version in ("x", _TOO_LARGE, "9223372036854775808")),
        Step(WATCH, _MAPS, query={"resourceVersion": "x"}),
        Step("DELETE", _MAPS, query={"resourceVersion": "x"}),
        *(
            Step("PUT", f"{_MAPS}/{name}", _map(metadata={"name": name, "resourceVersion": version}))
            for name, version in (("one", "x"), ("one", _TOO_LARGE), ("one", "0"), ("two", "x"))
        ),
        *_merge(f"{_MAPS}/one", {"metadata": {"resourceVersion": "x"}}, {"metadata": {"resourceVersion": "0"}}),
        *(
            Step("PUT", f"{_LEASES}/two", {"metadata": {"name": "two", "resourceVersion": version}})
            for version in ("x", "5")
        ),
        *(
            Step("POST", _MAPS, _map(metadata={"name": "three", "resourceVersion": version}))
            for version in ("5", _TOO_LARGE)
        ),
    ],
    "the UID of another object": [
        Step("POST", _MAPS, _map()),
        Step("POST", _LEASES, {"metadata": {"name": "one"}}),
        Step("POST", _GADGETS, _gadget(spec={"size": 1})),
        *(
            Step("PUT", f"{path}/one", {**body, "metadata": {"name": "one", "uid": "x"}}, query=query)
            for path, body in ((_MAPS, _map()), (_LEASES, {}), (_GADGETS, _gadget(spec={"size": 1})))
            for query in ({}, {"dryRun": "All"})
        ),
        Step("PUT", f"{_LEASES}/two", {"metadata": {"name": "two", "uid": "x"}}),
        Step(
            "POST",
            _JOBS,
            {
                "metadata": {"name": "one"},
                "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}},
            },
        ),
        *_merge(f"{_JOBS}/one", {"metadata": {"uid": "x"}}, {"metadata": {"uid": "x"}, "spec": {"parallelism": -1}}),
        *_merge(f"{_JOBS}/one/status", {"metadata": {"uid": "x"}, "status": {"active": 1}}),
    ],
    "bindings without a node, or of another pod": [
        Step("POST", f"{A}/pods", {"metadata": {"name": "one"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}),
        *(
            Step("POST", f"{A}/pods/one/binding", {"metadata": {"name": name}, **fields})
            for name, fields in (
                *(("one", {"target": {"name": ""}}), ("one", {}), ("one", {"target": {"kind": "Foo", "name": "n1"}})),
                *(("two", {"target": {"name": "n1"}}), ("", {"target": {"name": "n1"}})),
            )
        ),
        Step("POST", f"{A}/bindings", {"metadata": {}, "target": {"name": "n1"}}),
    ],
    "patches of the type of a custom object": [
        Step("POST", _GADGETS, _gadget(spec={"size": 1})),
        *_merge(
            f"{_GADGETS}/one",
            *({"apiVersion": value} for value in (None, "", "x", "x/y", "example.org/v1beta1", 5)),
            {"apiVersion": None, "kind": None},
            {"apiVersion": None, "metadata": {"name": "two"}},
            {"apiVersion": "x/v1", "kind": "Y"},
        ),
        Step("PATCH", f"{_GADGETS}/one", [{"op": "remove", "path": "/apiVersion"}], media=JSON_PATCH),
        Step("PATCH", f"{_GADGETS}/one", [{"op": "add", "path": "/apiVersion"}], media=JSON_PATCH),
        *(
            Step("DELETE", path, {"preconditions": preconditions})
            for preconditions in ({"uid": ""}, {"resourceVersion": ""})
            for path in (_GADGETS, f"{_GADGETS}/one")
        ),
        Step("DELETE", _GADGETS, {"propagationPolicy": "Sideways"}, query={"labelSelector": "x y"}),
        *_merge(f"{_GADGETS}/one/status", *({"status": {"replicas": value}} for value in (1.5, 2**65, "x"))),
    ],
    "patches of the apiVersion of a ConfigMap": [
        Step("POST", _MAPS, _map()),
        *(
            Step("PATCH", f"{_MAPS}/one", [{"op": "add", "path": "/apiVersion", "value": value}], media=JSON_PATCH)
            for value in _NO_VERSIONS
        ),
    ],
    "paths that are not served": [
        Step("GET", path)
        for path in (
            *("/foo", "/apis/foo", "/apis/foo/v1", "/apis/foo/v1/bars", "/apis/apps/v9", "/api/v2", "/api/v1/foos"),
            *("/apis/example.org/v1/foos", "/apis/example.org/v1alpha1/gadgets", "/apis/example.org/v1/gadgets/one"),
            *(f"{_GADGETS}/one/foo", f"{A}/pods/one/foo", "/apis/apps/v1/deployments/one", "/openapi/v2/pods"),
        )
    ]
    + [Step("POST", "/apis/example.org/v1/gadgets", {}), Step("POST", "/apis/foo/v1/bars", {})],
    "managers of empty lists": [
        *(Step("POST", _ROLES, {"metadata": {"name": name}, **fields}) for name, fields in _ROLE_FIELDS.items()),
        *_merge(f"{_ROLES}/full", {"rules": None}),
        *(_apply_role(name, rules) for name in _ROLE_FIELDS for rules in (None, [], [_RULE])),
        _apply_role("new", None),
        _apply_role("new", [_RULE], "bob"),
        _apply_role("new", None, "ada"),
        _apply(_SLICE, {**_SLICE_TYPE, "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.1.1"]}]}),
        *_merge(_SLICE, {"ports": []}),
        *(_apply(f"{_GADGETS}/one", _gadget(spec=spec)) for spec in ({"size": 1, "tags": []}, {"size": 2})),
        *(_apply(f"{_GADGETS}/one", _gadget(spec={"size": 2, "tags": tags})) for tags in ([], ["a"], [])),
        Step("POST", _MAPS, _map(immutable=False)),
        _apply(f"{_MAPS}/one", _map(immutable=True)),
        _apply(_SLICE, {**_SLICE_TYPE, "endpoints": [], "ports": []}, "bob"),
        *_merge(_SLICE, {"ports": [{"port": 80}]}, {"ports": None}, {"ports": []}),
        _apply(_SLICE, {**_SLICE_TYPE, "endpoints": [], "ports": []}, "bob"),
    ],
    "an object whose fields have lost their managers": [
        Step(WATCH, _MAPS),
        _apply(f"{_MAPS}/one", _map(metadata={"name": "one", "labels": {"tier": "1"}})),
        Step("PUT", f"{_MAPS}/one", _map()),
        *_merge(f"{_MAPS}/one", {}, {"data": {"a": "1"}}),
        Step("POST", _MAPS, _map("two")),
        _apply(f"{_MAPS}/two", _map("two")),
        _apply(f"{_MAPS}/one", _map(data={"a": "2"})),
    ],
    "pages of lists with selectors, and of the cache": [
        *(
            Step("POST", _MAPS, _map(metadata={"name": name, "labels": {"app": app}}))
            for name, app in (("a", "web"), ("b", "db"), ("c", "web"), ("d", "db"))
        ),
        *(_list(limit=limit, labelSelector="app=web") for limit in ("1", "2", "3")),
        *(_list(limit="2", labelSelector=selector) for selector in ("app=db", "app=x")),
        *(_list(limit="1", fieldSelector=selector) for selector in ("metadata.name=a", "metadata.name!=a")),
        *(_list(limit="2", resourceVersion="0", **query) for query in ({}, {"labelSelector": "app=web"})),
        _list(limit="1"),
        Step("GET", _MAPS, query={"limit": "1", "continue": "{continue}", "fieldSelector": "metadata.name=b"}),
        Step("GET", _MAPS, query={"limit": "1", "continue": "{continue}", "labelSelector": "app=web"}),
        Step("GET", _MAPS, query={"limit": "1", "continue": "{continue}", "labelSelector": "app=web"}),
    ],
}
