"""Services: defaults, validation and changes of type."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import MERGE_PATCH
from tests.differential.steps import TABLE, A, Step

_SERVICES = f"{A}/services"
_ONE = f"{_SERVICES}/s"


def service(name: str = "s", **spec: Any) -> dict[str, Any]:
    """Return a service with one port."""
    fields = {"selector": {"app": "p"}, "ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": fields}


def _create(**spec: Any) -> Step:
    return Step("POST", _SERVICES, service("n", **spec), query={"dryRun": "All"})


SEQUENCES: dict[str, list[Step]] = {
    "services": [
        _create(clusterIP="None"),
        _create(clusterIP="None", selector=None),
        _create(clusterIP="None", ports=[]),
        _create(ports=[]),
        _create(ports=[{"port": 0}]),
        _create(ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]),
        _create(ports=[{"port": 80}, {"port": 81}]),
        _create(type="Best"),
        _create(type="NodePort"),
        _create(type="LoadBalancer"),
        _create(type="ExternalName", externalName="example.com"),
        _create(type="ExternalName"),
        _create(sessionAffinity="ClientIP"),
        _create(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 0}}),
        _create(clusterIP="nonsense"),
        _create(clusterIP="10.1.1.1"),
        _create(externalTrafficPolicy="Local"),
        Step("POST", _SERVICES, service("1x"), query={"dryRun": "All"}),
        Step("POST", _SERVICES, service("a/b")),
    ],
    "update of a service": [
        Step("POST", _SERVICES, service()),
        Step("GET", _ONE, accept=TABLE),
        Step("PATCH", _ONE, {"spec": {"clusterIP": "10.96.7.7"}}, media=MERGE_PATCH),
        Step("PATCH", _ONE, {"spec": {"type": "NodePort"}}, media=MERGE_PATCH),
        Step("PATCH", _ONE, {"spec": {"type": "ClusterIP"}}, media=MERGE_PATCH),
        Step("PUT", _ONE, service()),
        Step("PATCH", _ONE, {"spec": {"type": "ExternalName", "externalName": "a.b"}}, media=MERGE_PATCH),
        Step("DELETE", _ONE),
    ],
}
