"""Deployments, ReplicaSets, ControllerRevisions and Jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.kube.transport.base import MERGE_PATCH
from tests.differential.steps import SPACE, TABLE, Step

APPS, BATCH = (f"/apis/{group}/v1/namespaces/{SPACE}" for group in ("apps", "batch"))
Object = dict[str, Any]
_DRY = {"dryRun": "All"}
_LABELS = {"a": "b"}
_CONTAINER = {"name": "c", "image": "x:1"}


def _create(kind: str, spec: Object) -> Step:
    path = f"{BATCH}/jobs" if kind == "Job" else f"{APPS}/{kind.lower()}s"
    api_version = "batch/v1" if kind == "Job" else "apps/v1"
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}
    return Step("POST", path, body, query=_DRY)


def _template(*, labels: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"labels": _LABELS | (labels or {})}, "spec": {"containers": [_CONTAINER], **spec}}


def _replicated() -> dict[str, Object]:
    """Specs of Deployments and ReplicaSets."""
    basic: Object = {"selector": {"matchLabels": _LABELS}, "template": _template()}
    probe = {"httpGet": {"port": 80}}
    full = {
        **_CONTAINER,
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"containerPort": 80}],
        "readinessProbe": probe,
        "resources": {"limits": {"cpu": "1"}},
    }
    volumes = [
        {"name": "cm", "configMap": {"name": "x"}},
        {"name": "s", "secret": {"secretName": "x"}},
        {"name": "nothing"},
        {"name": "h", "hostPath": {"path": "/x"}},
        {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
    ]
    everything = _template(containers=[full], volumes=volumes, serviceAccountName="default")
    return {
        "": basic,
        "with everything": {**basic, "template": everything},
        "of another selector": {**basic, "selector": {"matchLabels": {"a": "c"}}},
        "with an empty selector": {**basic, "selector": {}},
        "with an expression": {**basic, "selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
        "with a bad expression": {**basic, "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "that never restarts": {**basic, "template": _template(restartPolicy="Never")},
        "with a deadline": {**basic, "template": _template(activeDeadlineSeconds=3)},
        "with negative replicas": {**basic, "replicas": -1},
        "without containers": {**basic, "template": _template(containers=[])},
        "with a bad label": {**basic, "template": _template(labels={"c d": "x"})},
        "with a bad volume mount": {
            **basic,
            "template": _template(containers=[{**_CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]),
        },
    }


def _deployments() -> dict[str, Object]:
    basic: Object = {"selector": {"matchLabels": _LABELS}, "template": _template()}

    def update(**rolling: Any) -> Object:
        return {**basic, "strategy": {"rollingUpdate": rolling}}

    return {
        "to recreate": {**basic, "strategy": {"type": "Recreate"}},
        "to recreate with a surge": {**basic, "strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
        "without surge and unavailability": update(maxSurge=0, maxUnavailable=0),
        "with bad limits": update(maxSurge="x", maxUnavailable="200%"),
        "ready after its deadline": {**basic, "minReadySeconds": 600},
        "with limits": {**update(maxSurge="10%", maxUnavailable=3), "minReadySeconds": 5, "paused": True},
    }


def _jobs() -> dict[str, Object]:
    once = {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}}
    basic: Object = {"template": once}
    indexed = {**basic, "completionMode": "Indexed", "completions": 3}

    def failing(**rule: Any) -> Object:
        return {**basic, "podFailurePolicy": {"rules": [rule]}}

    return {
        "": basic,
        "with labels": {"template": {**once, "metadata": {"labels": {"tier": "prep"}}}},
        "that always restarts": {"template": {"spec": {"containers": [_CONTAINER]}}},
        "with a selector": {**basic, "selector": {"matchLabels": _LABELS}},
        "with its own selector": {**basic, "manualSelector": True},
        "with another job name": {"template": {**once, "metadata": {"labels": {"job-name": "other"}}}},
        "with indexes": indexed,
        "with a limit for an index": {**indexed, "backoffLimitPerIndex": 1, "maxFailedIndexes": 3},
        "with too many failed indexes": {**indexed, "backoffLimitPerIndex": 1, "maxFailedIndexes": 4},
        "with a limit for no index": {**basic, "backoffLimitPerIndex": 1},
        "of an unknown mode": {**basic, "completionMode": "Perhaps"},
        "with a negative limit": {**basic, "backoffLimit": -1},
        "of another controller": {**basic, "managedBy": "example.org/them"},
        "with a bad controller": {**basic, "managedBy": "them"},
        "with a bad replacement policy": {**basic, "podReplacementPolicy": "Perhaps"},
        "with a rule of nothing": failing(action="FailJob"),
        "with an unordered rule": failing(action="Ignore", onExitCodes={"operator": "In", "values": [3, 0]}),
        "with a rule for disruptions": failing(action="Ignore", onPodConditions=[{"type": "DisruptionTarget"}]),
        "with a success policy": {**indexed, "successPolicy": {"rules": [{"succeededCount": 1}]}},
        "with a success policy without indexes": {**basic, "successPolicy": {"rules": [{"succeededCount": 1}]}},
        "with a success policy beyond": {**indexed, "successPolicy": {"rules": [{"succeededCount": 5}]}},
    }


def _revisions() -> Iterator[Step]:
    path = f"{APPS}/controllerrevisions"
    body = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r"}, "revision": 3}
    yield Step("POST", path, {**body, "data": {"a": 1}})
    yield Step("POST", path, {**body, "metadata": {"name": "n"}})
    yield Step("PATCH", f"{path}/r", {"data": {"a": 2}}, media=MERGE_PATCH)
    yield Step("GET", path, accept=TABLE)
    yield Step("DELETE", f"{path}/r")


def _sizes() -> Iterator[Step]:
    """Scale and change a ReplicaSet without pods."""
    spec = {"replicas": 0, "selector": {"matchLabels": _LABELS}, "template": _template()}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "w"}, "spec": spec}
    path = f"{APPS}/replicasets"
    yield Step("POST", path, body)
    yield Step("PATCH", f"{path}/w", _replicas(-1), media=MERGE_PATCH)
    other = {"spec": {"selector": {"matchLabels": {"a": "c"}}}}
    yield Step("PATCH", f"{path}/w", other, media=MERGE_PATCH)
    yield Step("GET", path, query={"fieldSelector": "status.replicas=5"})
    yield Step("GET", path, query={"fieldSelector": "spec.replicas=5"})
    yield Step("DELETE", f"{path}/w", {"propagationPolicy": "Background"})


def _replicas(count: int) -> Object:
    return {"spec": {"replicas": count}}


def _managed_jobs() -> Iterator[Step]:
    """Change a job and its status; its controller is not there, so that nothing else changes it."""
    path, one = f"{BATCH}/jobs", f"{BATCH}/jobs/w"
    template = {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}}
    spec = {"template": template, "managedBy": "example.org/them"}
    yield Step("POST", path, {"metadata": {"name": "w"}, "spec": spec})
    changes = {
        "image": {"template": {"spec": {"containers": [{**_CONTAINER, "image": "y:1"}]}}},
        "completions": {"completions": 7},
        "parallelism": {"parallelism": 3},
        "controller": {"managedBy": "example.org/others"},
        "mode": {"completionMode": "Indexed"},
    }
    for change in changes.values():
        yield Step("PATCH", one, {"spec": change}, media=MERGE_PATCH)
    for status in _job_statuses().values():
        yield Step("PATCH", f"{one}/status", {"status": status}, media=MERGE_PATCH)
    yield Step("GET", path, accept=TABLE)
    yield Step("GET", path, query={"fieldSelector": "status.successful=2"}, accept=TABLE)
    yield Step("DELETE", one, {"propagationPolicy": "Background"})


def _job_statuses() -> dict[str, Object]:
    def condition(name: str) -> Object:
        return {"type": name, "status": "True"}

    started = {"startTime": "2030-01-01T00:00:00Z"}
    return {
        "with negative counts": {"active": -1},
        "started": {**started, "active": 1, "ready": 1, "terminating": 0, "succeeded": 2, "failed": 1},
        "failed without a target": {"active": None, "ready": 0, "conditions": [condition("Failed")]},
        "with fewer failures": {"failed": 0},
        "failed": {"active": None, "ready": 0, "conditions": [condition("FailureTarget"), condition("Failed")]},
        "not failed any more": {"conditions": []},
    }


SEQUENCES: dict[str, list[Step]] = {
    "replicated kinds": [
        _create(kind, spec) for kind in ("Deployment", "ReplicaSet") for spec in _replicated().values()
    ],
    "Deployments": [_create("Deployment", spec) for spec in _deployments().values()],
    "Jobs": [_create("Job", spec) for spec in _jobs().values()],
    "ControllerRevisions": list(_revisions()),
    "update of a ReplicaSet": list(_sizes()),
    "update of a Job": list(_managed_jobs()),
}
