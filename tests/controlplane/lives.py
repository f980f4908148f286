"""What two API servers should answer alike about probes, hooks, sidecars and claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.controlplane.exchange import IN, TABLE, Exchange, pod


def lifecycle_exchanges() -> Iterator[Exchange]:
    """All of them, in order; the namespace is there already."""
    yield from _probes()
    yield from _sidecars()
    yield from _claims()


def _probes() -> Iterator[Exchange]:
    pods = f"{IN}/pods"
    asked: dict[str, Any] = {"httpGet": {"port": 80}}
    whole = dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), asked)
    yield Exchange("create a pod with probes", "POST", pods, _pod("probed", **whole))
    hooks = {"preStop": {"httpGet": {"port": 80}}, "postStart": {"exec": {"command": ["true"]}}}
    yield Exchange("create a pod with hooks", "POST", pods, _pod("hooked", lifecycle=hooks))
    probes = {
        "that asks in two ways": {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}},
        "that asks nothing": {"periodSeconds": 1},
        "with a bad port": {"tcpSocket": {"port": 70000}},
        "of a command that is none": {"exec": {"command": []}},
        "that never fails": {**asked, "failureThreshold": -1},
        "of no time": {**asked, "timeoutSeconds": -1},
    }
    for said, probe in probes.items():
        yield Exchange(f"create a pod with a probe {said}", "POST", pods, _pod("n", livenessProbe=probe))
    twice = {**asked, "successThreshold": 2}
    yield Exchange("create a pod that must live twice", "POST", pods, _pod("n", livenessProbe=twice))
    grace = {**asked, "terminationGracePeriodSeconds": 5}
    yield Exchange("create a pod whose readiness has a grace", "POST", pods, _pod("n", readinessProbe=grace))
    for name in ("probed", "hooked"):
        yield Exchange(f"delete the pod that is {name}", "DELETE", f"{pods}/{name}")


def _sidecars() -> Iterator[Exchange]:
    pods = f"{IN}/pods"
    beside = {"name": "beside", "image": "x", "restartPolicy": "Always", "readinessProbe": {"tcpSocket": {"port": 1}}}
    yield Exchange("create a pod with a sidecar", "POST", pods, pod("sidecar", initContainers=[beside]))
    yield Exchange("get it as table", "GET", f"{pods}/sidecar", accept=TABLE)
    passing = {"name": "init", "image": "x", "readinessProbe": {"tcpSocket": {"port": 1}}}
    yield Exchange("create a pod that probes an init container", "POST", pods, pod("n", initContainers=[passing]))
    often = {**beside, "restartPolicy": "Sometimes"}
    yield Exchange("create a pod with an odd sidecar", "POST", pods, pod("n", initContainers=[often]))
    yield Exchange("delete the pod with a sidecar", "DELETE", f"{pods}/sidecar")


def _claims() -> Iterator[Exchange]:
    claims, one = f"{IN}/persistentvolumeclaims", f"{IN}/persistentvolumeclaims/c"
    yield Exchange("create a claim", "POST", claims, _claim())
    yield Exchange("get a claim as table", "GET", one, accept=TABLE)
    mistakes: dict[str, dict[str, Any]] = {
        "of nothing": {"resources": {}},
        "for nobody": {"accessModes": []},
        "for anybody": {"accessModes": ["Everybody"]},
        "of an odd form": {"volumeMode": "Liquid"},
        "of a negative size": {"resources": {"requests": {"storage": "-1"}}},
    }
    for said, spec in mistakes.items():
        yield Exchange(f"create a claim {said}", "POST", claims, _claim("n", **spec))
    yield Exchange("delete a claim", "DELETE", one)


def _pod(name: str, **container: Any) -> dict[str, Any]:
    return pod(name, containers=[{"name": "main", "image": "busybox:1", **container}])


def _claim(name: str = "c", **spec: Any) -> dict[str, Any]:
    usual = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {**usual, **spec}}
