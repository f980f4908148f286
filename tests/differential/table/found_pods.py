"""Pods and services: sequences that the campaign found and shrank; the differences they showed are mended."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.steps import TABLE, WATCH, A, Step
from tests.differential.table.services import service

_PODS, _ONE, _SERVICES = f"{A}/pods", f"{A}/pods/two", f"{A}/services"
_MAIN = {"name": "main", "image": "busybox:1"}
_TIME = "2000-01-01T00:00:00Z"


def _pod(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    fields = {"containers": [_MAIN], **(spec or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "two", **metadata}, "spec": fields}


def _apply(spec: dict[str, Any], **metadata: Any) -> Step:
    return Step("PATCH", _ONE, _pod(spec, **metadata), query={"fieldManager": "bob"}, media=APPLY_PATCH)


def _status(**fields: Any) -> Step:
    return Step("PATCH", f"{_ONE}/status", {"status": fields}, media=MERGE_PATCH)


def _evict(**options: Any) -> Step:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "two"}, "deleteOptions": options}
    return Step("POST", f"{_ONE}/eviction", body)


def _container_status(name: str, restarts: int, state: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "", "imageID": "", "restartCount": restarts, "ready": True, "state": state, **fields}


def _show(first: dict[str, Any], second: dict[str, Any], *conditions: str) -> list[Step]:
    """Set the states of the first init container and of the second container, and show the table."""
    sidecar = _container_status("b", 5, {"running": {}}, started=True)
    inits = [_container_status("a", 1, first), sidecar, _container_status("c", 7, {"terminated": {"exitCode": 0}})]
    containers = [
        _container_status("main", 2, {"terminated": {"exitCode": 0, "reason": "Completed"}}),
        _container_status("side", 3, second),
    ]
    found = [{"type": each, "status": "True"} for each in conditions]
    return [
        _status(initContainerStatuses=inits, containerStatuses=containers, conditions=found),
        Step("GET", _ONE, accept=TABLE),
    ]


_INITS = [{"name": "a", "image": "x:1"}, {"name": "b", "image": "x:1", "restartPolicy": "Always"}]
_BAD_ITEMS: tuple[Any, ...] = ({}, "x", [], None, {"name": "main", "$patch": "x"})
_DONE = {"terminated": {"exitCode": 0}}
SEQUENCES: dict[str, list[Step]] = {
    "a JSON patch that moves a value below itself": [
        Step("POST", _PODS, _pod({"containers": [_MAIN, {**_MAIN, "name": "side"}]})),
        *(
            Step("PATCH", _ONE, [{"op": "move", "from": source, "path": path}], media=JSON_PATCH)
            for source, path in (
                ("/spec/containers/0", "/spec/containers/0/name"),
                ("/metadata", "/metadata/labels"),
                ("/spec/containers/1", "/spec/containers/1/name"),
            )
        ),
    ],
    "the status of a pod with a projected volume without sources": [
        Step("POST", _PODS, _pod({"volumes": [{"name": "v", "projected": {}}]})),
        _status(message="text"),
        Step("PUT", f"{_ONE}/status", {"metadata": {"name": "two"}}),
    ],
    "the table of a pod with init containers": [
        Step("POST", _PODS, _pod({"nodeName": "n1", "initContainers": [*_INITS, {"name": "c", "image": "x:1"}]})),
        *_show({"running": {}}, {"running": {}}),
        *_show({"waiting": {"reason": "X"}}, {"running": {}}, "Initialized"),
        *_show({"terminated": {"exitCode": 3, "signal": 5}}, {"running": {}}, "Initialized", "Ready"),
        *_show(_DONE, {"running": {}}, "Initialized", "Ready"),
        *_show(_DONE, {"running": {}}),
        *_show(_DONE, {"terminated": {"exitCode": 4, "reason": "Error"}}),
    ],
    "a watch of a pod without a node that is deleted": [
        Step(WATCH, _PODS),
        Step("POST", _PODS, _pod()),
        Step("DELETE", _ONE),
    ],
    "an update of a pod without its service account": [
        Step("POST", _PODS, _pod()),
        Step("PUT", _ONE, _pod({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {}}]}}]})),
        Step("PUT", _ONE, _pod()),
    ],
    "required fields of a pod that are named differently": [
        Step("POST", _PODS, _pod({"volumes": [{"downwardAPI": {"items": [{"fieldRef": {}}]}}]})),
        Step("POST", _PODS, _pod({"hostAliases": [{}], "readinessGates": [{}]})),
        Step("POST", _PODS, _pod({"containers": [{**_MAIN, "livenessProbe": {"httpGet": {}}}]})),
    ],
    "the status of a pod": [
        Step("POST", _PODS, _pod()),
        _status(conditions=[{}]),
        _status(podIP="-x-", podIPs=[{"ip": "10.1.1.1"}]),
        _status(podIPs=[{"ip": "10.1.1.1"}, {"ip": "10.1.1.2"}]),
        _status(podIP="10.1.1.1"),
        Step("PATCH", f"{_ONE}/status", {"status": None}, media=MERGE_PATCH),
        Step("PATCH", f"{_ONE}/status", {"metadata": {"labels": {"a b": "c"}}}, media=MERGE_PATCH),
        Step("PATCH", f"{_ONE}/status", {"metadata": {"labels": {"a": "c"}}}, media=MERGE_PATCH),
    ],
    "fields of a pod that a manager no longer applies, with their defaults": [
        _apply({"containers": [{**_MAIN, "livenessProbe": {"exec": {"command": ["x"]}}}]}),
        _apply({"containers": [{"name": "main"}]}),
        _apply({"containers": [_MAIN]}, labels={"a": "b"}),
    ],
    "what the server sets has no manager": [
        Step("POST", _PODS, _pod()),
        Step("POST", _SERVICES, service()),
        _apply({"tolerations": []}),
        Step(
            "PATCH",
            f"{_SERVICES}/s",
            {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None"}},
            query={"fieldManager": "bob"},
            media=APPLY_PATCH,
        ),
    ],
    "a version of a pod that is created by apply": [_apply({}, resourceVersion="7")],
    "the time of deletion is immutable": [
        Step("POST", _PODS, _pod()),
        Step("PATCH", _ONE, {"metadata": {"deletionTimestamp": _TIME}}, media=MERGE_PATCH),
        Step("PATCH", _ONE, {"metadata": {"deletionGracePeriodSeconds": 5}}, media=MERGE_PATCH),
    ],
    "options of the eviction of a pod that does not exist": [
        _evict(dryRun=["Some"]),
        Step("POST", _PODS, _pod()),
        _evict(dryRun=["Some"]),
    ],
    "evictions with options that are invalid set the condition of the pod": [
        Step(WATCH, _PODS),
        Step("POST", _PODS, _pod()),
        _evict(propagationPolicy="Sideways", dryRun=["All"]),
        _evict(propagationPolicy="Sideways", preconditions={"uid": "other"}),
        _evict(propagationPolicy="Sideways"),
        Step("GET", _ONE),
        _evict(propagationPolicy="Background", orphanDependents=True),
    ],
    "service accounts and classes that do not exist": [
        Step("POST", _PODS, _pod({"serviceAccountName": "other"})),
        Step("POST", _PODS, _pod({"serviceAccount": "Bad_Name!", "hostname": "Bad_Name!"})),
        Step("POST", _PODS, _pod({"serviceAccountName": "other"}, name="")),
        Step("POST", _PODS, _pod({"priorityClassName": "other"}, name="")),
    ],
    "the old name of the field of the node": [
        Step("POST", _PODS, _pod({"nodeName": "n1"})),
        Step("GET", _PODS, query={"fieldSelector": "spec.host=n1"}),
        Step("GET", _PODS, query={"fieldSelector": "spec.host=n2"}),
    ],
    "strategic patches that cannot be merged": [
        Step("POST", _PODS, _pod()),
        *(
            Step("PATCH", _ONE, {"spec": fields}, media=STRATEGIC_MERGE_PATCH)
            for fields in (
                *({"containers": [item]} for item in _BAD_ITEMS),
                *({"initContainers": [[]]}, {"$patch": "x"}, {"$setElementOrder/containers": 1}),
                {"$retainKeys": ["volumes"], "nodeName": "n"},
            )
        ),
    ],
    "ephemeral containers in a whole pod": [
        Step("PUT", f"{_ONE}/ephemeralcontainers", {}),
        Step("POST", _PODS, _pod()),
        Step("PUT", f"{_ONE}/ephemeralcontainers", _pod({"ephemeralContainers": [{**_MAIN, "name": "debug"}]})),
        Step("PUT", f"{_ONE}/ephemeralcontainers", _pod(resourceVersion="{first}")),
        Step("PUT", f"{_ONE}/ephemeralcontainers", _pod(labels={"a": "b"})),
    ],
    "evictions of a pod that stays": [
        Step(WATCH, _PODS),
        Step("POST", _PODS, _pod({"nodeName": "n1"}, finalizers=["example.org/keep"])),
        Step("DELETE", _ONE),
        _evict(),
        Step("GET", _ONE),
        Step("DELETE", _ONE, {"gracePeriodSeconds": 0}),
        Step("PATCH", _ONE, {"metadata": {"finalizers": None}}, media=MERGE_PATCH),
    ],
    "a service that becomes headless, and one that gets a selector": [
        Step("POST", _SERVICES, service(clusterIP="None", selector=None)),
        Step("PUT", f"{_SERVICES}/s", service(clusterIP="None")),
        Step("PUT", f"{_SERVICES}/s", service()),
        Step("PATCH", f"{_SERVICES}/s", {"spec": {"selector": {"app": "web"}}}, media=MERGE_PATCH),
    ],
    "errors of the address of a service hide others": [
        Step("POST", _SERVICES, service(clusterIP="a b", ports=[{"port": 0}])),
        Step("POST", _SERVICES, service(clusterIP="a b", sessionAffinity="x", selector={"a b": "c"})),
        Step("POST", _SERVICES, service(ipFamilies=["x"], ports=[])),
    ],
    "a grace period in the metadata of a status": [
        Step("POST", _PODS, _pod()),
        Step("PATCH", f"{_ONE}/status", {"metadata": {"deletionGracePeriodSeconds": 5}}, media=MERGE_PATCH),
        Step("PATCH", f"{_ONE}/status", {"metadata": {"deletionTimestamp": _TIME}}, media=MERGE_PATCH),
    ],
    "unknown directives": [
        Step("POST", _PODS, _pod()),
        Step("PATCH", _ONE, {"metadata": {"annotations": {"$x": "y"}}}, media=STRATEGIC_MERGE_PATCH),
        Step("PATCH", _ONE, {"spec": {"$u": 1}}, {"fieldValidation": "Strict"}, STRATEGIC_MERGE_PATCH),
    ],
}
