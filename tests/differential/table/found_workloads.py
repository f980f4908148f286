"""Sequences about workloads that the campaign found and shrank; the differences they showed are mended."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.steps import SPACE, WATCH, Step

_APPS, _BATCH = (f"/apis/{group}/v1/namespaces/{SPACE}" for group in ("apps", "batch"))
_LABELS = {"matchLabels": {"a": "b"}}
Object = dict[str, Any]


def _workload(path: str, fields: Object, container: Object | None = None, **pod_spec: Any) -> Step:
    pod = {"containers": [{"name": "c", "image": "x:1", **(container or {})}], **pod_spec}
    if path == "jobs":
        spec: Object = {"template": {"spec": {"restartPolicy": "Never", **pod}}}
        return Step("POST", f"{_BATCH}/jobs", {"metadata": {"name": "w"}, "spec": {**spec, **fields}})
    spec = {"selector": _LABELS, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}
    return Step("POST", f"{_APPS}/{path}", {"metadata": {"name": "w"}, "spec": {**spec, **fields}})


def _apply(spec: Object, **metadata: Any) -> Step:
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", **metadata}, "spec": spec}
    return Step("PATCH", f"{_APPS}/deployments/w", body, query={"fieldManager": "ada"}, media=APPLY_PATCH)


def _replicated(container: Object, **pod_spec: Any) -> Object:
    pod = {"containers": [{"name": "c", "image": "x:1", **container}], **pod_spec}
    return {"selector": _LABELS, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}


_BOOKMARKS = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
_MOUNTS = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
_DATA: tuple[Object, ...] = ({"a": {}}, {"b": []}, {"c": 2}, {"a": []}, {"d": {}})
_ALL_JOBS = f"{_BATCH}/jobs"
_JOB_TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
SEQUENCES: dict[str, list[Step]] = {
    "an update of the status that ends the deletion of a job shows no labels by default": [
        step
        for labels in ({}, {"labels": {"a": "b"}})
        for step in (
            Step("POST", _ALL_JOBS, {"metadata": {"name": "one"}, "spec": {"template": _JOB_TEMPLATE}}),
            Step("DELETE", f"{_ALL_JOBS}/one"),
            Step("PUT", f"{_ALL_JOBS}/one/status", {"metadata": {"name": "one", **labels}}),
        )
    ],
    "workloads with errors in several parts": [
        _workload("jobs", {"completionMode": "x"}, {"image": "", "volumeMounts": [{}]}, restartPolicy="Always"),
        _workload("deployments", {"strategy": {"type": "x"}}, {"name": "", "livenessProbe": {"httpGet": {}}}),
        _workload("replicasets", {"replicas": -1}, {"imagePullPolicy": "x"}, hostAliases=[{}], readinessGates=[{}]),
        _workload("replicasets", {}, {"resources": {"limits": {"unknown": 1}}}, topologySpreadConstraints=[{}]),
        _workload("deployments", {"selector": {"matchLabels": {"a b": "c"}}}, {"imagePullPolicy": "x"}),
    ],
    "a template with the ports of the host network": [
        _workload("deployments", {}, {"ports": [{"containerPort": 80}]}, hostNetwork=True),
        _workload("jobs", {}, {"ports": [{"containerPort": 80, "hostPort": 81}]}, hostNetwork=True),
    ],
    "updates of the template of a suspended job": [
        _workload("jobs", {"suspend": True}),
        *(
            Step("PATCH", f"{_BATCH}/jobs/w", {"spec": {"template": {"spec": fields}}}, media=MERGE_PATCH)
            for fields in ({"dnsPolicy": "Default"}, {"nodeSelector": {"a": "b"}})
        ),
    ],
    "numbers and indexes of a job that are out of range": [
        _workload("jobs", {}, activeDeadlineSeconds=2**31),
        _workload(
            "jobs",
            {
                "completionMode": "Indexed",
                "completions": 3,
                "successPolicy": {"rules": [{"succeededIndexes": "..", "succeededCount": 1}]},
            },
        ),
    ],
    "the labels of a job that an update takes from its template": [
        _workload("jobs", {}),
        Step(
            "PUT",
            f"{_BATCH}/jobs/w",
            {"metadata": {"name": "w"}, "spec": {"template": {"metadata": {"labels": {"app": "a/b"}}}}},
        ),
        Step("PATCH", f"{_BATCH}/jobs/w", {"metadata": {"labels": None}}, media=MERGE_PATCH),
    ],
    "replicas that are no number, applied to a scale": [
        _workload("deployments", {}),
        Step(
            "PATCH",
            f"{_APPS}/deployments/w/scale",
            {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": "x"}},
            query={"fieldManager": "ada"},
            media=APPLY_PATCH,
        ),
    ],
    "a scale with another UID": [
        _workload("deployments", {}),
        Step("PUT", f"{_APPS}/deployments/w/scale", {"metadata": {"name": "w", "uid": "other"}}),
    ],
    "a strategic patch of the data of a revision": [
        Step("POST", f"{_APPS}/controllerrevisions", {"metadata": {"name": "w"}, "data": {"a": {}, "b": [], "c": 1}}),
        *(
            Step("PATCH", f"{_APPS}/controllerrevisions/w", {"data": data}, media=STRATEGIC_MERGE_PATCH)
            for data in _DATA
        ),
    ],
    "a dry run with a version that is none": [
        Step(
            "POST",
            f"/api/v1/namespaces/{SPACE}/limitranges",
            {"metadata": {"name": "w", "resourceVersion": "x"}},
            query={"dryRun": "All"},
        )
    ],
    "a patch of a job with another UID": [
        _workload("jobs", {}),
        Step("PATCH", f"{_BATCH}/jobs/w", {"metadata": {"uid": "other"}}, media=MERGE_PATCH),
    ],
    "a job that is deleted again with another policy": [
        _workload("jobs", {}),
        Step("DELETE", f"{_BATCH}/jobs/w"),
        _workload("jobs", {}),
        Step("DELETE", f"{_BATCH}/jobs/w", {"propagationPolicy": "Background"}),
        Step("GET", f"{_BATCH}/jobs/w"),
    ],
    "bookmarks of workloads": [
        Step(WATCH, f"{root}/{plural}", query=_BOOKMARKS)
        for root, plural in ((_APPS, "deployments"), (_APPS, "replicasets"), (_BATCH, "jobs"))
    ],
    "applied fields that a manager no longer applies": [
        _apply(_replicated(_MOUNTS, volumes=[{"name": "v", "secret": {"secretName": "s"}}])),
        _apply(_replicated({"readinessProbe": {"httpGet": {"port": 80}}}, volumes=[{"name": "v"}])),
        _apply(_replicated({})),
    ],
    "applied fields that do not fit": [
        _apply({**_replicated({}), "replicas": 2**31}),
        _apply(_replicated({}), deletionTimestamp="2000-01-01T00:00:00Z"),
    ],
    "an update with a deletion timestamp": [
        _workload("deployments", {}),
        Step(
            "PUT",
            f"{_APPS}/deployments/w",
            {"metadata": {"name": "w", "deletionTimestamp": "2000-01-01T00:00:00Z"}, "spec": _replicated({})},
        ),
    ],
    "a surge that is a text": [
        _workload("deployments", {"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}})
        for surge, unavailable in (("\u00e4", 0), ("0", "0%"), ("5", 0), ("101", "101"), ("", "101%"))
    ],
    "jobs of other controllers": [
        _workload("jobs", {"managedBy": name})
        for name in ("", "a", "a/", "/a", "A/b", "a/b c", "a/b?c", "\u00e4" * 40, "a.b/c/d")
    ],
    "a status written without a finalizer": [
        _apply(_replicated({}), finalizers=["example.org/a"]),
        Step(
            "PUT",
            f"{_APPS}/deployments/w/status",
            {"metadata": {"name": "w"}, "spec": _replicated({}), "status": {}},
            query={"fieldManager": "bob"},
        ),
        _apply(_replicated({}), finalizers=["example.org/a"]),
        Step("GET", f"{_APPS}/deployments/w"),
    ],
}
