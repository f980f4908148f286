"""Sequences about fields that few objects have, which the campaign found and shrank; the differences are mended."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.steps import SPACE, A, Step

_PODS, _ONE = f"{A}/pods", f"{A}/pods/two"
_APPS, _BATCH = (f"/apis/{group}/v1/namespaces/{SPACE}" for group in ("apps", "batch"))
_MAIN = {"name": "main", "image": "busybox:1"}
_GATES = [{"name": "example.org/gate"}]
_LABELS = {"app": "web"}
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_BOOKMARK = {"kind": "Scale", "apiVersion": "autoscaling/v1"}
Object = dict[str, Any]


def _pod(container: Object | None = None, **spec: Any) -> Step:
    fields = {"containers": [{**_MAIN, **(container or {})}], **spec}
    return Step("POST", _PODS, {"metadata": {"name": "two", "labels": _LABELS}, "spec": fields})


def _replica_set(**spec: Any) -> Step:
    template = {"metadata": {"labels": _LABELS}, "spec": {"containers": [_MAIN]}}
    body = {"selector": {"matchLabels": _LABELS}, "template": template, **spec}
    return Step("POST", f"{_APPS}/replicasets", {"metadata": {"name": "w"}, "spec": body})


def _job(**spec: Any) -> Step:
    template = {"metadata": {"labels": _LABELS}, "spec": {"containers": [_MAIN], "restartPolicy": "Never"}}
    return Step("POST", f"{_BATCH}/jobs", {"metadata": {"name": "w"}, "spec": {"template": template, **spec}})


def _merge(path: str, **fields: Any) -> Step:
    return Step("PATCH", path, fields, media=MERGE_PATCH)


def _apply_scale(replicas: Any) -> Step:
    body = {**_BOOKMARK, "metadata": {"name": "w"}, "spec": {"replicas": replicas}}
    return Step("PATCH", f"{_APPS}/replicasets/w/scale", body, query={"fieldManager": "ada"}, media=APPLY_PATCH)


def _affinity(**term: Any) -> Object:
    terms = [{"topologyKey": "zone", **term}]
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


_MATCH = {"labelSelector": {"matchLabels": _LABELS}, "matchLabelKeys": ["app"]}
SEQUENCES: dict[str, list[Step]] = {
    "fields of pods that are dropped, because their features are off": [
        _pod({"lifecycle": {"stopSignal": "SIGTERM"}}, os={"name": "linux"}),
        _pod(volumes=[{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"name": "b", "path": "p"}}]}}]),
    ],
    "a pod with scheduling gates": [
        _pod(schedulingGates=_GATES),
        Step("POST", f"{_ONE}/binding", {"metadata": {"name": "two"}, "target": {"name": "n1"}}),
        _merge(_ONE, spec={"nodeSelector": {"disk": "ssd"}}),
        _merge(_ONE, spec={"nodeSelector": None}),
        _merge(_ONE, spec={"schedulingGates": [*_GATES, {"name": "example.org/b"}]}),
        _merge(_ONE, spec={"schedulingGates": None}),
    ],
    "a gated pod with a node": [_pod(schedulingGates=_GATES, nodeName="n1")],
    "resources of a pod itself": [
        _pod({"resources": {"requests": {"cpu": "2"}}}, resources={"limits": {"cpu": "1", "memory": "1Gi"}}),
        _pod({"resources": {"requests": {"memory": "1Mi"}}}, resources={"limits": {"cpu": "1", "memory": "1Gi"}}),
    ],
    "affinity to pods": [
        _pod(affinity=_affinity(topologyKey="")),
        _pod(affinity=_affinity(namespaces=["a b"], matchLabelKeys=["app"])),
        _pod(affinity=_affinity(**_MATCH)),
    ],
    "volumes of storage systems": [
        _pod(volumes=[{"name": "v", "azureDisk": {"diskName": "d", "diskURI": "x", "kind": "Managed"}}]),
        _pod(volumes=[{"name": "v", "fc": {}, "cephfs": {}}, {"name": "w", "iscsi": {"iqn": "x"}}]),
        _pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM}}}]),
    ],
    "privileges that a pod cannot have": [
        _pod({"securityContext": {"procMount": "Unmasked", "seccompProfile": {"type": "Localhost"}}}),
        _pod(securityContext={"seLinuxChangePolicy": "MountOption", "sysctls": [{"name": "a b"}]}, hostIPC=True),
        _pod(os={"name": "windows"}, hostUsers=False, hostPID=True, securityContext={"runAsUser": 1}),
    ],
    "an invalid status of a pod": [
        _pod(),
        _merge(f"{_ONE}/status", status={"hostIPs": [{"ip": "1.1.1.1"}], "qosClass": "Guaranteed"}),
        _merge(f"{_ONE}/status", status={"containerStatuses": [{"name": "main", "user": {"linux": {"uid": -1}}}]}),
        Step("PUT", f"{_ONE}/status", {"metadata": {"name": "two"}}),
        Step("GET", _ONE),
    ],
    "ephemeral containers that an update takes away": [
        _pod(),
        Step("PATCH", f"{_ONE}/ephemeralcontainers", {}, media=STRATEGIC_MERGE_PATCH),
        _merge(f"{_ONE}/ephemeralcontainers", spec={"ephemeralContainers": [{**_MAIN, "name": "debug"}]}),
        Step("PUT", _ONE, {"metadata": {"name": "two"}, "spec": {}}),
        _merge(_ONE, spec={"ephemeralContainers": None}),
    ],
    "a type that a patch breaks": [
        _pod(),
        Step("PATCH", _ONE, [{"op": "add", "path": "/apiVersion", "value": {}}], media=JSON_PATCH),
    ],
    "an empty UID as precondition": [_pod(), Step("DELETE", _ONE, {"preconditions": {"uid": ""}})],
    "invalid options of the deletion of selected objects": [
        Step("DELETE", f"{_APPS}/deployments", {"propagationPolicy": "Sideways"}, query={"labelSelector": "x y"})
    ],
    "a scale that is applied": [
        _apply_scale(2),
        _replica_set(),
        _apply_scale(2),
        _apply_scale(-1),
        _merge(f"{_APPS}/replicasets/w/scale", spec={"replicas": -1}),
        Step("PUT", f"{_APPS}/replicasets/none/scale", {"metadata": {"name": "x"}}),
        Step("GET", f"{_APPS}/replicasets/w/scale"),
    ],
    "the status of a job": [
        _job(completions=3, completionMode="Indexed", backoffLimitPerIndex=1),
        _merge(f"{_BATCH}/jobs/w/status", status={"completedIndexes": "0-1", "failedIndexes": "1,x"}),
        _merge(f"{_BATCH}/jobs/w/status", status={"completionTime": "2030-01-01T00:00:00Z", "ready": 2}),
        _merge(f"{_BATCH}/jobs/w/status", status={"conditions": [{"type": "Complete", "status": "True"}]}),
        _merge(f"{_BATCH}/jobs/w/status", status={"startTime": "2030-01-01T00:00:00Z", "succeeded": 2}),
        _merge(f"{_BATCH}/jobs/w/status", status={"startTime": "2031-01-01T00:00:00Z", "succeeded": 1}),
    ],
    "policies of a job without their fields": [
        _job(podFailurePolicy={"rules": [{"onExitCodes": {}}, {"onPodConditions": [{}]}]}),
        _job(manualSelector=True, selector={"matchLabels": _LABELS}),
        _merge(f"{_BATCH}/jobs/w", spec={"manualSelector": False}),
    ],
    "revisions with other data": [
        Step("POST", f"{_APPS}/controllerrevisions", {"metadata": {"name": "r"}, "revision": 1, "data": data})
        for data in (5, [1], "x", None, {"a": 1})
    ],
}
