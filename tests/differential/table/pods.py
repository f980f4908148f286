"""Pods: validation, updates, bindings, deletion and evictions."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.steps import TABLE, A, Step

_PODS = f"{A}/pods"
_ONE = f"{_PODS}/p"


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """Return a pod with one container."""
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], **spec},
    }


def _create(**spec: Any) -> Step:
    return Step("POST", _PODS, pod("n", **spec), query={"dryRun": "All"})


def _create_with(**container: Any) -> Step:
    return _create(containers=[{"name": "a", "image": "x", **container}])


def _affinity(term: dict[str, Any]) -> Step:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return _create(affinity={"nodeAffinity": required})


def _expression(key: str, operator: str, *values: str, where: str = "matchExpressions") -> dict[str, Any]:
    return {where: [{"key": key, "operator": operator, "values": list(values)}]}


_PROBE: dict[str, Any] = {"httpGet": {"port": 80}}
_BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
_EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
_RUNNING = {"status": {"phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]}}
SEQUENCES: dict[str, list[Step]] = {
    "containers": [
        _create(containers=[]),
        _create(containers=[{"image": "x"}]),
        _create(containers=[{"name": "a"}]),
        _create(containers=[{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]),
        _create(restartPolicy="Perhaps"),
        _create_with(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        _create_with(resources={"requests": {"cpu": "two"}}),
        _create_with(resources={"requests": {"cpu": "-1", "memory": "1.5Gi"}}),
        _create_with(resources={"limits": {"nvidia.com/gpu": "1.5"}}),
        _create_with(ports=[{"containerPort": 70000}, {}, {"containerPort": 80, "name": "Bad_Name"}]),
        _create_with(env=[{"name": "A=B"}, {"name": ""}, {"name": "C", "valueFrom": {}}]),
        _create_with(envFrom=[{}, {"configMapRef": {}}]),
        _create_with(imagePullPolicy="Sometimes"),
        _create(initContainers=[{"name": "main", "image": "x"}]),
    ],
    "volumes": [
        _create_with(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        _create(volumes=[{"name": "v"}, {"name": "v", "emptyDir": {}}, {"name": "Bad_Name", "emptyDir": {}}]),
        _create(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
        _create(volumes=[{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "../x"}]}}]),
        _create(volumes=[{"name": "v", "projected": {"sources": [{}]}}]),
        _create(volumes=[{"name": "v", "hostPath": {"path": "/tmp", "type": "Nothing"}}]),
    ],
    "affinity": [
        _affinity(_expression("a", "Like", "b")),
        _affinity(_expression("a", "In")),
        _affinity(_expression("a", "Exists", "b")),
        _affinity(_expression("a", "Gt", "1", "2")),
        _affinity(_expression("spec.x", "In", "b", where="matchFields")),
        _affinity(_expression("metadata.name", "NotIn", "a", "b", where="matchFields")),
        _affinity(_expression("metadata.name", "Gt", "1", where="matchFields")),
        _create(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}),
        _create(tolerations=[{"key": "k", "tolerationSeconds": 5}, {"operator": "Equal"}]),
    ],
    "probes and hooks": [
        _create_with(livenessProbe=_PROBE, readinessProbe=_PROBE, startupProbe=_PROBE),
        _create_with(lifecycle={"preStop": _PROBE, "postStart": {"exec": {"command": ["true"]}}}),
        _create_with(livenessProbe={"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}),
        _create_with(livenessProbe={"periodSeconds": 1}),
        _create_with(livenessProbe={"tcpSocket": {"port": 70000}}),
        _create_with(livenessProbe={"exec": {"command": []}}),
        _create_with(livenessProbe={**_PROBE, "failureThreshold": -1}),
        _create_with(livenessProbe={**_PROBE, "successThreshold": 2}),
        _create_with(readinessProbe={**_PROBE, "terminationGracePeriodSeconds": 5}),
        _create(initContainers=[{"name": "i", "image": "x", "readinessProbe": _PROBE}]),
        _create(initContainers=[{"name": "i", "image": "x", "restartPolicy": "Always", "readinessProbe": _PROBE}]),
        _create(initContainers=[{"name": "i", "image": "x", "restartPolicy": "Sometimes"}]),
    ],
    "update of a pod": [
        Step("POST", _PODS, pod()),
        Step("GET", _ONE, accept=TABLE),
        Step("PATCH", _ONE, {"spec": {"containers": [{"name": "main", "image": "y"}]}}, media=STRATEGIC_MERGE_PATCH),
        Step(
            "PATCH",
            _ONE,
            {"spec": {"containers": [{"name": "main", "command": ["false"]}]}},
            media=STRATEGIC_MERGE_PATCH,
        ),
        Step("PATCH", _ONE, {"spec": {"containers": [{"name": "more", "image": "y"}]}}, media=STRATEGIC_MERGE_PATCH),
        Step("PATCH", _ONE, {"spec": {"activeDeadlineSeconds": 100}}, media=MERGE_PATCH),
        Step("PATCH", _ONE, {"spec": {"activeDeadlineSeconds": 200}}, media=MERGE_PATCH),
        Step("PATCH", _ONE, {"status": {"phase": "Running"}}, media=MERGE_PATCH),
        Step("PATCH", f"{_ONE}/status", {"status": {"phase": "Running"}}, media=MERGE_PATCH),
    ],
    "binding and deletion": [
        Step("POST", _PODS, pod()),
        Step("POST", f"{_ONE}/binding", {**_BINDING, "target": {"kind": "Node"}}),
        Step("POST", f"{_ONE}/binding", _BINDING),
        Step("POST", f"{_ONE}/binding", _BINDING),
        Step("PATCH", f"{_ONE}/status", _RUNNING, media=MERGE_PATCH),
        Step("DELETE", _ONE),
        Step("DELETE", _ONE, {"gracePeriodSeconds": 5}),
        Step("DELETE", _ONE, {"gracePeriodSeconds": 50}),
        Step("DELETE", _ONE, {"gracePeriodSeconds": 0}),
        Step("GET", _ONE),
        Step("POST", _PODS, pod()),
        Step("DELETE", _ONE),
        Step("GET", _ONE),
    ],
    "eviction": [
        Step("POST", f"{_ONE}/eviction", _EVICTION),
        Step("POST", "/api/v1/namespaces/none/pods/p/eviction", _EVICTION),
        Step("POST", _PODS, pod()),
        Step("POST", f"{_ONE}/eviction", {**_EVICTION, "metadata": {"name": "other"}}),
        Step("POST", f"{_ONE}/eviction", {**_EVICTION, "deleteOptions": {"preconditions": {"uid": "other"}}}),
        Step("POST", f"{_ONE}/eviction", _EVICTION),
        Step("GET", _ONE),
    ],
}
