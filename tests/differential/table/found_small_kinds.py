"""Sequences about claims, events, namespaces and other small kinds; the differences they showed are mended."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.steps import TABLE, WAIT, A, Step

_CLAIMS = f"{A}/persistentvolumeclaims"
_CLAIM = f"{_CLAIMS}/one"
_EVENTS = f"{A}/events"
_NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/{run}-a/events"
_SPACES = "/api/v1/namespaces"
_SPACE = f"{_SPACES}/{{run}}-one"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/{run}-a/leases"
_BUDGETS = "/apis/policy/v1/namespaces/{run}-a/poddisruptionbudgets"
_ACCOUNTS = f"{A}/serviceaccounts"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/{run}-a/endpointslices"
_TIME = "2030-01-01T00:00:00.000000Z"
_SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}


_CONDITION = {"type": "Ready", "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": _TIME}
_ODD_CONDITIONS: tuple[list[Any], ...] = (
    [{}],
    [{**_CONDITION, "type": "a b", "reason": "1"}],
    [{**_CONDITION, "status": "x", "observedGeneration": -1, "message": "x" * 32769, "reason": "x" * 1025}],
    [_CONDITION, _CONDITION],
    [_CONDITION],
)
_ODD_SECRETS: tuple[list[Any], ...] = ([], [{}], ["x"], [["x"]], [{"name": "a"}], [{"$patch": "replace"}])
_NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/{run}-a/events"
_NEW_EVENT = {
    "eventTime": "2030-01-01T00:00:00.000000Z",
    "reportingController": "example.org/c",
    "reportingInstance": "c-1",
    "action": "Start",
    "reason": "Started",
    "type": "Normal",
    "regarding": {"namespace": "{run}-a"},
}


def _create_claim(**spec: Any) -> Step:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return Step("POST", _CLAIMS, {"metadata": {"name": "one"}, "spec": spec})


def _claim_status(status: Any) -> Step:
    return Step("PATCH", f"{_CLAIM}/status", {"status": status}, media=MERGE_PATCH)


def _event(name: str = "one", **fields: Any) -> dict[str, Any]:
    required = {"eventTime": _TIME, "reportingController": "c", "reportingInstance": "c-1", "action": "a"}
    about = {"kind": "Pod", "namespace": "{run}-a"}
    return {"metadata": {"name": name}, **required, "reason": "r", "type": "Normal", "regarding": about, **fields}


def _finalize(**fields: Any) -> Step:
    return Step("PUT", f"{_SPACE}/finalize", {"metadata": {"name": "{run}-one"}, **fields})


def _create_class(name: str, **fields: Any) -> Step:
    return Step("POST", _CLASSES, {"metadata": {"name": f"{{run}}-{name}"}, "value": 1, **fields})


def _apply(path: str, body: dict[str, Any], manager: str = "bob") -> Step:
    return Step("PATCH", path, {"apiVersion": "v1", **body}, query={"fieldManager": manager}, media=APPLY_PATCH)


SEQUENCES: dict[str, list[Step]] = {
    "data sources of claims": [
        *(
            step
            for spec in (
                {"dataSource": _SNAPSHOT},
                {"dataSourceRef": _SNAPSHOT},
                {"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}},
                {"dataSource": {"kind": "Unknown", "name": "x"}},
                {"dataSourceRef": {"kind": "Unknown", "name": ""}},
                {"dataSourceRef": {**_SNAPSHOT, "namespace": "other"}},
                {"dataSource": _SNAPSHOT, "dataSourceRef": {**_SNAPSHOT, "name": "t"}},
                {"dataSource": {"apiGroup": "Bad_", "kind": "x", "name": "x"}, "dataSourceRef": {}},
            )
            for step in (_create_claim(**spec), Step("DELETE", _CLAIM))
        )
    ],
    "the status of a claim": [
        _create_claim(),
        _claim_status({"capacity": {"storage": "-1Gi"}, "allocatedResources": {"cpu": "1", "a b": "1"}}),
        _claim_status({"allocatedResourceStatuses": {"storage": "Odd", "cpu": "NodeResizePending"}}),
        _claim_status({"phase": "Bound", "capacity": {"storage": "1Gi"}}),
        Step("PUT", f"{_CLAIM}/status", {"metadata": {"name": "one", "annotations": {"a": "b"}}}),
        _claim_status({"phase": "Bound"}),
        Step("PATCH", _CLAIM, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}, media=MERGE_PATCH),
        Step("PATCH", _CLAIM, {"spec": {"resources": {"limits": {"storage": "3Gi"}}}}, media=MERGE_PATCH),
    ],
    "events of both groups": [
        Step("POST", _EVENTS, {"metadata": {"name": "two", "finalizers": ["short"]}, "involvedObject": {}}),
        Step("POST", _EVENTS, {"metadata": {"name": "a:b"}, "involvedObject": {"namespace": "{run}-a"}}),
        Step("POST", _EVENTS, {"metadata": {"name": "c"}, "eventTime": _TIME, "reportingComponent": "a b"}),
        Step("POST", _EVENTS, {}),
        Step("PUT", f"{_EVENTS}/two", {"metadata": {"name": "two"}}),
        Step("GET", f"{_NEW_EVENTS}/a:b"),
        Step("POST", _NEW_EVENTS, _event(note="x" * 1025, type="Odd", deprecatedCount=1, series={"count": 1})),
        Step("POST", _NEW_EVENTS, _event("a:b", eventTime=None)),
        Step("POST", _NEW_EVENTS, _event("")),
        Step("POST", _NEW_EVENTS, {"metadata": {"generateName": "Bad_"}}),
        Step("POST", _NEW_EVENTS, _event()),
        Step("POST", _NEW_EVENTS, _event()),
        Step("PATCH", f"{_NEW_EVENTS}/one", {"regarding": {"kind": "x"}, "note": "x"}, media=MERGE_PATCH),
        Step("PATCH", f"{_NEW_EVENTS}/one", {"related": {}, "reportingController": "d"}, media=STRATEGIC_MERGE_PATCH),
        Step("PATCH", f"{_NEW_EVENTS}/one", {"series": {"count": 2, "lastObservedTime": _TIME}}, media=MERGE_PATCH),
        Step("GET", _NEW_EVENTS, accept=TABLE),
        Step("DELETE", f"{_NEW_EVENTS}/one", {"preconditions": {"resourceVersion": "1"}}),
        Step("DELETE", f"{_NEW_EVENTS}/one"),
    ],
    "finalizers and status of namespaces": [
        Step("POST", _SPACES, {"metadata": {"name": "{run}-two"}, "spec": {"finalizers": ["short"]}}),
        Step("POST", _SPACES, {"metadata": {"name": "{run}-one"}, "spec": {"finalizers": ["example.org/keep"]}}),
        Step("PATCH", _SPACE, {"spec": {"finalizers": ["example.org/other"]}}, media=MERGE_PATCH),
        Step("PATCH", f"{_SPACE}/status", {"status": {"phase": "Terminating"}}, media=MERGE_PATCH),
        Step("PUT", f"{_SPACE}/status", {"metadata": {"name": "{run}-one", "labels": {"a": "b"}}}),
        _finalize(spec={"finalizers": ["short"]}),
        _finalize(),
        Step("DELETE", _SPACE),
        Step("PATCH", f"{_SPACE}/status", {"status": {"phase": "Active"}}, media=MERGE_PATCH),
        Step("DELETE", _SPACE),
    ],
    "leases, budgets and accounts": [
        Step("POST", _LEASES, {"metadata": {"name": "one"}, "spec": {"strategy": "x", "preferredHolder": "you"}}),
        Step(
            "PATCH", f"{_LEASES}/one", [{"op": "add", "path": "/metadata", "value": {"name": "one"}}], media=JSON_PATCH
        ),
        Step("POST", _BUDGETS, {"metadata": {"name": "one"}}),
        _apply(
            f"{_BUDGETS}/one/status",
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "status": {"currentHealthy": 1}},
        ),
        _apply(f"{_BUDGETS}/two/status", {}),
        Step("POST", _ACCOUNTS, {"metadata": {"name": "one"}, "secrets": [{"name": "t", "kind": "Secret"}]}),
        _apply(f"{_ACCOUNTS}/one", {"kind": "ServiceAccount", "secrets": [{"name": "s"}]}, "ada"),
        _apply(f"{_ACCOUNTS}/one", {"kind": "ServiceAccount", "secrets": [{"name": "u"}]}, "ada"),
        Step("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "{run}-a", "generation": 7}}),
        Step(
            "PUT",
            f"{A}/configmaps/one",
            {"metadata": {"name": "one", "finalizers": ["example.org/keep"], "deletionTimestamp": _TIME}},
        ),
        Step(
            "POST",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            {
                "metadata": {"name": "{run}-one"},
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"": ""}}, {"matchExpressions": [{}]}]},
            },
        ),
    ],
    "empty preconditions, and bytes that are null": [
        Step("POST", f"{A}/configmaps", {"metadata": {"name": "one"}, "binaryData": {"a": [None, 255]}}),
        Step("DELETE", f"{A}/configmaps", {"preconditions": {"uid": ""}}),
        Step("DELETE", f"{A}/configmaps/one", {"preconditions": {"uid": ""}}),
        Step("DELETE", f"{A}/configmaps/one", {"preconditions": {"resourceVersion": ""}}),
        Step("DELETE", _SPACE, {"preconditions": {"uid": ""}}),
    ],
    "numbers that are larger than their fields": [
        Step("POST", _LEASES, {"metadata": {"name": "one"}}),
        *(
            Step("PATCH", f"{_LEASES}/one", {"spec": {"leaseTransitions": number}}, media=STRATEGIC_MERGE_PATCH)
            for number in (2**63, 2**31, 2**32 + 5, -(2**33), 1.5)
        ),
        _create_claim(),
        Step(
            "PATCH",
            _CLAIM,
            {"spec": {"resources": {"limits": {"storage": 2**33}}}, "metadata": {"labels": {"a": 2**33}}},
            media=STRATEGIC_MERGE_PATCH,
        ),
        Step("PATCH", f"{_CLAIM}/status", {"status": {"capacity": {"storage": 2**33}}}, media=STRATEGIC_MERGE_PATCH),
        Step("POST", _BUDGETS, {"metadata": {"name": "one"}}),
        Step("PATCH", f"{_BUDGETS}/one", {"spec": {"minAvailable": 2**31}}, media=STRATEGIC_MERGE_PATCH),
    ],
    "types that a JSON patch changes": [
        Step("POST", f"{A}/configmaps", {"metadata": {"name": "one"}}),
        Step("PATCH", f"{A}/configmaps/one", [{"op": "add", "path": "/apiVersion", "value": 0}], media=JSON_PATCH),
        Step(
            "PATCH", f"{A}/configmaps/one", [{"op": "move", "from": "/apiVersion", "path": "/kind"}], media=JSON_PATCH
        ),
        Step(
            "PATCH",
            f"{A}/configmaps/one",
            [{"op": "add", "path": "/kind", "value": []}, {"op": "remove", "path": "/apiVersion"}],
            media=JSON_PATCH,
        ),
    ],
    "secrets without names, and a second default class": [
        _apply(f"{_ACCOUNTS}/one", {"kind": "ServiceAccount", "metadata": {"name": "one"}, "secrets": [{}]}),
        Step("POST", _ACCOUNTS, {"metadata": {"name": "one"}, "secrets": [{}]}),
        _apply(f"{_ACCOUNTS}/one", {"kind": "ServiceAccount", "metadata": {"name": "one"}}),
        Step("POST", _SLICES, {"metadata": {"name": "one"}, "addressType": "IPv4", "endpoints": [], "ports": [{}]}),
        Step("GET", _SLICES, accept=TABLE),
        _create_class("one", globalDefault=True),
        Step(WAIT, ""),
        _create_class("two", globalDefault=True),
        _create_class("two"),
        Step("PATCH", f"{_CLASSES}/{{run}}-two", {"globalDefault": True}, media=MERGE_PATCH),
        Step("PATCH", f"{_CLASSES}/{{run}}-one", {"description": "text"}, media=MERGE_PATCH),
        Step("DELETE", f"{_CLASSES}/{{run}}-one"),  # before the next sequence creates pods
        Step(WAIT, ""),
    ],
    "secrets that are twins or have no name": [
        Step(
            "POST", _ACCOUNTS, {"metadata": {"name": "one"}, "secrets": [{"name": "s"}, {"name": "s"}, {"name": "a"}]}
        ),
        *(
            _apply(f"{_ACCOUNTS}/one", {"kind": "ServiceAccount", "metadata": {"name": "one"}, "secrets": secrets})
            for secrets in ([{"name": "s"}], [{"name": "t"}], [{"name": "a"}, {"name": "z"}])
        ),
        Step("POST", _ACCOUNTS, {"metadata": {"name": "two"}, "secrets": [{}]}),
        *(
            Step("PATCH", f"{_ACCOUNTS}/two", {"secrets": secrets}, media=STRATEGIC_MERGE_PATCH)
            for secrets in _ODD_SECRETS
        ),
        Step("PATCH", f"{_ACCOUNTS}/two", {"$patch": "x"}, media=STRATEGIC_MERGE_PATCH),
        Step("PATCH", f"{_ACCOUNTS}/two", {"$setElementOrder/secrets": 1}, media=STRATEGIC_MERGE_PATCH),
        Step("PATCH", f"{_ACCOUNTS}/two", {"$whatever": 1}, media=STRATEGIC_MERGE_PATCH),
        Step("PATCH", f"{_ACCOUNTS}/two", {"$whatever": 1}, {"fieldValidation": "Strict"}, STRATEGIC_MERGE_PATCH),
        Step("WATCH", _ACCOUNTS),
        Step("POST", _ACCOUNTS, {"metadata": {"name": "three"}, "automountServiceAccountToken": False}),
        _apply(f"{_ACCOUNTS}/three", {"kind": "ServiceAccount"}),
    ],
    "the deletion of claims and quotas shows the object": [
        _create_claim(),
        Step("PATCH", _CLAIM, {"metadata": {"finalizers": None}}, media=MERGE_PATCH),
        Step("DELETE", _CLAIM),
        Step("POST", f"{A}/resourcequotas", {"metadata": {"name": "one"}}),
        Step("DELETE", f"{A}/resourcequotas/one"),
    ],
    "limits with wrong names are compared, too": [
        Step("POST", f"{A}/limitranges", {"metadata": {"name": "one"}, "spec": {"limits": [limits]}}, {"dryRun": "All"})
        for limits in (
            {"maxLimitRequestRatio": {"memory": None, "unknown": 1}},
            {"type": "Pod", "default": {"cpu": 5}, "max": {"cpu": 1, "a b": 0}, "min": {"cpu": 2}},
            {"type": "Container", "default": {"cpu": 5, "x": 1}, "max": {"cpu": 1}, "min": {"cpu": 2}},
            {"type": "PersistentVolumeClaim", "max": {"cpu": 1}, "min": {"cpu": 2}},
        )
    ],
    "a new event with a name that exists and a generateName": [
        Step("POST", _NEW_EVENTS, {"metadata": {"name": "one", **metadata}, **_NEW_EVENT})
        for metadata in ({}, {"generateName": "zz-"}, {})
    ],
    "a dry run with a version that is none": [
        Step("POST", f"{A}/configmaps", {"metadata": {"name": "one", "resourceVersion": "x"}}, {"dryRun": "All"})
    ],
    "conditions of budgets, phases of namespaces, and claims": [
        Step("POST", _BUDGETS, {"metadata": {"name": "one"}}),
        *(
            Step("PATCH", f"{_BUDGETS}/one/status", {"status": {"conditions": conditions}}, media=MERGE_PATCH)
            for conditions in _ODD_CONDITIONS
        ),
        Step("POST", _SPACES, {"metadata": {"name": "{run}-one"}}),
        Step("PATCH", _SPACE, {"apiVersion": None}, {"fieldValidation": "Strict"}, MERGE_PATCH),
        Step("DELETE", _SPACE),
        _apply(f"{_SPACE}/status", {"kind": "Namespace", "status": {"phase": "Active"}}),
        _create_claim(dataSource={"kind": "PersistentVolumeClaim", "name": "other"}),
        Step("PATCH", f"{_CLAIM}/status", [], media=JSON_PATCH),
        _claim_status({"accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteOnce"]}),
        Step("GET", _CLAIMS, accept=TABLE),
        Step("PATCH", _CLAIM, {"spec": {"volumeName": "v"}}, media=MERGE_PATCH),
        Step("GET", _CLAIMS, accept=TABLE),
    ],
}
