"""Other built-in kinds: what each of them validates."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import MERGE_PATCH
from tests.differential.steps import SPACE, TABLE, A, Step
from tests.differential.table.pods import pod

_DRY = {"dryRun": "All"}
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases"
_BUDGETS = f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets"
_SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{SPACE}/endpointslices"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_CLAIMS = f"{A}/persistentvolumeclaims"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_BINDINGS = f"{_RBAC}/namespaces/{SPACE}/rolebindings"


def _object(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


def _budget(**spec: Any) -> Step:
    spec = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    return Step("POST", _BUDGETS, _object("n", spec=spec), query=_DRY)


def _claim(**spec: Any) -> dict[str, Any]:
    fields = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return _object("c", spec=fields)


def _class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    return _object(f"{{run}}-{name}", value=value, **fields)


def _pod(name: str, **spec: Any) -> Step:
    return Step("POST", f"{A}/pods", pod(name, **spec), query=_DRY)


_EVENT: dict[str, Any] = {
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": SPACE},
    "reason": "Started",
    "message": "text",
    "type": "Normal",
}
_LEASE: dict[str, Any] = {
    "holderIdentity": "me",
    "leaseDurationSeconds": 15,
    "renewTime": "2030-01-01T00:00:00.000000Z",
}
_SUBSET = {
    "addresses": [{"ip": "10.1.1.1"}],
    "notReadyAddresses": [{"ip": "10.1.1.2"}],
    "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
}
_SLICE: dict[str, Any] = {
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.1.1.1"], "conditions": {"ready": True}}],
    "ports": [{"name": "http", "port": 80}],
}
_ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
SEQUENCES: dict[str, list[Step]] = {
    "secrets": [
        Step("POST", f"{A}/secrets", _object("s", stringData={"a": "plain"})),
        Step("PATCH", f"{A}/secrets/s", {"type": "example.org/other"}, media=MERGE_PATCH),
        Step("POST", f"{A}/secrets", _object("n", data={"a": "nonsense!"})),
        Step("POST", f"{A}/secrets", _object("n", type="kubernetes.io/tls")),
        Step("POST", f"{A}/secrets", _object("n", type="kubernetes.io/basic-auth")),
        Step("POST", f"{A}/secrets", _object("n", type="kubernetes.io/dockerconfigjson", data={})),
        Step("POST", f"{A}/configmaps", _object("i", data={"a": "1"}, immutable=True)),
        Step("PATCH", f"{A}/configmaps/i", {"data": {"a": "2"}}, media=MERGE_PATCH),
        Step("PATCH", f"{A}/configmaps/i", {"immutable": False}, media=MERGE_PATCH),
        Step("GET", f"{A}/secrets/s", accept=TABLE),
    ],
    "leases": [
        Step("POST", _LEASES, _object("l", spec=_LEASE)),
        Step("POST", _LEASES, _object("n", spec={"leaseDurationSeconds": 0})),
        Step("POST", _LEASES, _object("n", spec={**_LEASE, "renewTime": "2030-01-01T00:00:00Z"})),
        Step("PUT", f"{_LEASES}/l", _object("l", spec=_LEASE)),
        Step("PUT", f"{_LEASES}/new", _object("new", spec=_LEASE)),
    ],
    "events": [
        Step("POST", f"{A}/events", _object("e", **_EVENT)),
        Step("POST", f"{A}/events", _object("n", **{**_EVENT, "involvedObject": {"namespace": "other"}})),
        Step("POST", f"{A}/events", _object("n", **{**_EVENT, "involvedObject": {}})),
    ],
    "budgets": [
        _budget(minAvailable=1),
        _budget(maxUnavailable="50%"),
        _budget(minAvailable=1, maxUnavailable=1),
        _budget(minAvailable=-1),
        _budget(maxUnavailable="half"),
        _budget(unhealthyPodEvictionPolicy="Never"),
        _budget(selector={"matchExpressions": [{"key": "a", "operator": "Like"}]}),
    ],
    "slices and endpoints": [
        Step("POST", _SLICES, _object("s", **_SLICE)),
        Step("GET", f"{_SLICES}/s", accept=TABLE),
        Step("POST", _SLICES, _object("n", **{**_SLICE, "addressType": "IPv5"})),
        Step("POST", _SLICES, _object("n", **{**_SLICE, "endpoints": [{"addresses": ["nonsense"]}]})),
        Step("POST", f"{A}/endpoints", _object("e", subsets=[_SUBSET])),
        Step("GET", f"{A}/endpoints/e"),
        Step("GET", f"{A}/endpoints/e", accept=TABLE),
        Step("DELETE", f"{A}/endpoints/e"),
    ],
    "claims": [
        Step("POST", _CLAIMS, _claim()),
        Step("GET", f"{_CLAIMS}/c", accept=TABLE),
        Step("POST", _CLAIMS, _claim(resources={})),
        Step("POST", _CLAIMS, _claim(accessModes=[])),
        Step("POST", _CLAIMS, _claim(accessModes=["Everybody"])),
        Step("POST", _CLAIMS, _claim(volumeMode="Liquid")),
        Step("POST", _CLAIMS, _claim(resources={"requests": {"storage": "-1"}})),
        Step("PUT", f"{_CLAIMS}/c", _claim(accessModes=["ReadWriteMany"])),
    ],
    "priorities": [
        Step("POST", _CLASSES, _class("high", 1000, description="urgent work")),
        Step("POST", _CLASSES, _class("high", 1000)),
        Step("POST", _CLASSES, _class("above", 2_000_000_000)),
        Step("POST", _CLASSES, _object("system-mine", value=5)),
        Step("POST", _CLASSES, _class("low", 5, preemptionPolicy="Never")),
        Step("POST", _CLASSES, _class("odd", 5, preemptionPolicy="Perhaps")),
        Step("GET", f"{_CLASSES}/{{run}}-high", accept=TABLE),
        Step("PATCH", f"{_CLASSES}/{{run}}-high", {"value": 5}, media=MERGE_PATCH),
        Step("PATCH", f"{_CLASSES}/{{run}}-high", {"preemptionPolicy": "Never"}, media=MERGE_PATCH),
        Step("PATCH", f"{_CLASSES}/{{run}}-high", {"description": "other text"}, media=MERGE_PATCH),
        _pod("high", priorityClassName="{run}-high"),
        _pod("low", priorityClassName="{run}-low"),
        _pod("n", priorityClassName="none"),
        _pod("s", priorityClassName="system-node-critical"),
        _pod("n", priority=5),
        _pod("n", priorityClassName="{run}-high", priority=1000),
        _pod("n", priorityClassName="{run}-high", priority=7),
        _pod("n", priorityClassName="{run}-low", preemptionPolicy="PreemptLowerPriority"),
    ],
    "roles": [
        Step("POST", f"{_RBAC}/namespaces/{SPACE}/roles", _object("r", rules=[])),
        Step("POST", f"{_RBAC}/namespaces/{SPACE}/roles", _object("n", rules=[{}])),
        Step("POST", f"{_RBAC}/clusterroles", _object("{run}-n", rules=[{"nonResourceURLs": ["/x"], "verbs": []}])),
        Step("POST", _BINDINGS, _object("b", roleRef=_ROLE, subjects=[{"kind": "User", "name": "ada"}])),
        Step("GET", f"{_BINDINGS}/b", accept=TABLE),
        Step("PATCH", f"{_BINDINGS}/b", {"roleRef": {"name": "other"}}, media=MERGE_PATCH),
        Step("POST", _BINDINGS, _object("n", roleRef=_ROLE, subjects=[{"kind": "Robot", "name": ""}])),
        Step("POST", _BINDINGS, _object("n")),
    ],
}
