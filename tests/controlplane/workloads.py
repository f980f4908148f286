"""Questions about Deployments, ReplicaSets and Jobs; most of them are dry runs, so that no controller acts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.kube.transport.base import MERGE_PATCH
from tests.controlplane.exchange import SPACE, TABLE, Exchange

APPS, BATCH = (f"/apis/{group}/v1/namespaces/{SPACE}" for group in ("apps", "batch"))
Object = dict[str, Any]
_DRY = {"dryRun": "All"}
_LABELS = {"a": "b"}
_CONTAINER = {"name": "c", "image": "x:1"}


def workload_exchanges() -> Iterator[Exchange]:
    """All of them, in order; the namespace is there already."""
    for kind in ("Deployment", "ReplicaSet"):
        for title, spec in _replicated().items():
            yield _create(kind, title, spec)
    for title, spec in _deployments().items():
        yield _create("Deployment", title, spec)
    for title, spec in _jobs().items():
        yield _create("Job", title, spec)
    yield from _revisions()
    yield from _sizes()
    yield from _managed_jobs()


def _create(kind: str, title: str, spec: Object) -> Exchange:
    path = f"{BATCH}/jobs" if kind == "Job" else f"{APPS}/{kind.lower()}s"
    api_version = "batch/v1" if kind == "Job" else "apps/v1"
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}
    return Exchange(f"create a {kind} {title}", "POST", path, body, query=_DRY)


def _template(*, labels: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"labels": _LABELS | (labels or {})}, "spec": {"containers": [_CONTAINER], **spec}}


def _replicated() -> dict[str, Object]:
    """Specs of Deployments and ReplicaSets."""
    usual: Object = {"selector": {"matchLabels": _LABELS}, "template": _template()}
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
        "": usual,
        "with everything": {**usual, "template": everything},
        "of another selector": {**usual, "selector": {"matchLabels": {"a": "c"}}},
        "with an empty selector": {**usual, "selector": {}},
        "with an expression": {**usual, "selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
        "with a bad expression": {**usual, "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "that never restarts": {**usual, "template": _template(restartPolicy="Never")},
        "with a deadline": {**usual, "template": _template(activeDeadlineSeconds=3)},
        "of fewer than none": {**usual, "replicas": -1},
        "without containers": {**usual, "template": _template(containers=[])},
        "with a bad label": {**usual, "template": _template(labels={"c d": "x"})},
        "with a bad volume mount": {
            **usual,
            "template": _template(containers=[{**_CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]),
        },
    }


def _deployments() -> dict[str, Object]:
    usual: Object = {"selector": {"matchLabels": _LABELS}, "template": _template()}

    def update(**rolling: Any) -> Object:
        return {**usual, "strategy": {"rollingUpdate": rolling}}

    return {
        "to recreate": {**usual, "strategy": {"type": "Recreate"}},
        "to recreate with a surge": {**usual, "strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
        "that cannot move": update(maxSurge=0, maxUnavailable=0),
        "with bad limits": update(maxSurge="x", maxUnavailable="200%"),
        "ready after its deadline": {**usual, "minReadySeconds": 600},
        "with limits": {**update(maxSurge="10%", maxUnavailable=3), "minReadySeconds": 5, "paused": True},
    }


def _jobs() -> dict[str, Object]:
    once = {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}}
    usual: Object = {"template": once}
    indexed = {**usual, "completionMode": "Indexed", "completions": 3}

    def failing(**rule: Any) -> Object:
        return {**usual, "podFailurePolicy": {"rules": [rule]}}

    return {
        "": usual,
        "with labels": {"template": {**once, "metadata": {"labels": {"tier": "prep"}}}},
        "that always restarts": {"template": {"spec": {"containers": [_CONTAINER]}}},
        "with a selector": {**usual, "selector": {"matchLabels": _LABELS}},
        "with its own selector": {**usual, "manualSelector": True},
        "with another's name": {"template": {**once, "metadata": {"labels": {"job-name": "other"}}}},
        "with indexes": indexed,
        "with a limit for an index": {**indexed, "backoffLimitPerIndex": 1, "maxFailedIndexes": 3},
        "with too many failed indexes": {**indexed, "backoffLimitPerIndex": 1, "maxFailedIndexes": 4},
        "with a limit for no index": {**usual, "backoffLimitPerIndex": 1},
        "of an unknown mode": {**usual, "completionMode": "Perhaps"},
        "with a negative limit": {**usual, "backoffLimit": -1},
        "of another controller": {**usual, "managedBy": "example.org/them"},
        "of a bad controller": {**usual, "managedBy": "them"},
        "with a bad replacement policy": {**usual, "podReplacementPolicy": "Perhaps"},
        "with a rule of nothing": failing(action="FailJob"),
        "with an unordered rule": failing(action="Ignore", onExitCodes={"operator": "In", "values": [3, 0]}),
        "with a rule for disruptions": failing(action="Ignore", onPodConditions=[{"type": "DisruptionTarget"}]),
        "with a success policy": {**indexed, "successPolicy": {"rules": [{"succeededCount": 1}]}},
        "with a success policy without indexes": {**usual, "successPolicy": {"rules": [{"succeededCount": 1}]}},
        "with a success policy beyond": {**indexed, "successPolicy": {"rules": [{"succeededCount": 5}]}},
    }


def _revisions() -> Iterator[Exchange]:
    path = f"{APPS}/controllerrevisions"
    body = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r"}, "revision": 3}
    yield Exchange("create a revision", "POST", path, {**body, "data": {"a": 1}})
    yield Exchange("create a revision of nothing", "POST", path, {**body, "metadata": {"name": "n"}})
    yield Exchange("change a revision", "PATCH", f"{path}/r", {"data": {"a": 2}}, media=MERGE_PATCH)
    yield Exchange("get revisions as table", "GET", path, accept=TABLE)
    yield Exchange("delete a revision", "DELETE", f"{path}/r")


def _sizes() -> Iterator[Exchange]:
    """Scale and change a ReplicaSet without pods."""
    spec = {"replicas": 0, "selector": {"matchLabels": _LABELS}, "template": _template()}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "w"}, "spec": spec}
    path = f"{APPS}/replicasets"
    yield Exchange("create a ReplicaSet without pods", "POST", path, body)
    yield Exchange("scale a ReplicaSet below nothing", "PATCH", f"{path}/w", _replicas(-1), media=MERGE_PATCH)
    other = {"spec": {"selector": {"matchLabels": {"a": "c"}}}}
    yield Exchange("change the selector of a ReplicaSet", "PATCH", f"{path}/w", other, media=MERGE_PATCH)
    yield Exchange("get ReplicaSets by size", "GET", path, query={"fieldSelector": "status.replicas=5"})
    yield Exchange("get ReplicaSets by another field", "GET", path, query={"fieldSelector": "spec.replicas=5"})
    yield Exchange("delete a ReplicaSet", "DELETE", f"{path}/w", {"propagationPolicy": "Background"})


def _replicas(count: int) -> Object:
    return {"spec": {"replicas": count}}


def _managed_jobs() -> Iterator[Exchange]:
    """Change a job and its status; its controller is not there, so that nothing else changes it."""
    path, one = f"{BATCH}/jobs", f"{BATCH}/jobs/w"
    template = {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}}
    spec = {"template": template, "managedBy": "example.org/them"}
    yield Exchange("create a managed job", "POST", path, {"metadata": {"name": "w"}, "spec": spec})
    changes = {
        "image": {"template": {"spec": {"containers": [{**_CONTAINER, "image": "y:1"}]}}},
        "completions": {"completions": 7},
        "parallelism": {"parallelism": 3},
        "controller": {"managedBy": "example.org/others"},
        "mode": {"completionMode": "Indexed"},
    }
    for title, change in changes.items():
        yield Exchange(f"change the {title} of a job", "PATCH", one, {"spec": change}, media=MERGE_PATCH)
    for title, status in _job_statuses().items():
        yield Exchange(f"set a job status {title}", "PATCH", f"{one}/status", {"status": status}, media=MERGE_PATCH)
    yield Exchange("get jobs as table", "GET", path, accept=TABLE)
    yield Exchange("get jobs by successes", "GET", path, query={"fieldSelector": "status.successful=2"}, accept=TABLE)
    yield Exchange("delete a job", "DELETE", one, {"propagationPolicy": "Background"})


def _job_statuses() -> dict[str, Object]:
    def condition(name: str) -> Object:
        return {"type": name, "status": "True"}

    started = {"startTime": "2030-01-01T00:00:00Z"}
    return {
        "of less than nothing": {"active": -1},
        "started": {**started, "active": 1, "ready": 1, "terminating": 0, "succeeded": 2, "failed": 1},
        "failed without a target": {"active": None, "ready": 0, "conditions": [condition("Failed")]},
        "with fewer failures": {"failed": 0},
        "failed": {"active": None, "ready": 0, "conditions": [condition("FailureTarget"), condition("Failed")]},
        "not failed any more": {"conditions": []},
    }
