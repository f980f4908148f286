"""Sequences whose conflicts or events once told of other managers: of fields that the server restores or drops."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, MERGE_PATCH
from tests.differential.steps import WATCH, Step

_NAMESPACES = "/api/v1/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{run}}-one"
_SERVICES = "/api/v1/namespaces/{run}-a/services"
_GADGETS = "/apis/example.org/v1/namespaces/{run}-a/gadgets"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/{run}-a/endpointslices"
_KUBERNETES, _OTHER = ["kubernetes"], ["a/b"]


def _namespace(finalizers: list[str] | None) -> dict[str, Any]:
    spec = {} if finalizers is None else {"finalizers": finalizers}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{run}-one"}, "spec": spec}


def _create(finalizers: list[str] | None) -> Step:
    return Step("POST", _NAMESPACES, _namespace(finalizers))


def _put(finalizers: list[str] | None, subresource: str = "") -> Step:
    return Step("PUT", f"{_NAMESPACE}{subresource}", _namespace(finalizers))


def _merge(finalizers: list[str] | None) -> Step:
    return Step("PATCH", _NAMESPACE, {"spec": {"finalizers": finalizers}}, media=MERGE_PATCH)


def _apply(finalizers: list[str], manager: str = "ada") -> Step:
    return Step("PATCH", _NAMESPACE, _namespace(finalizers), query={"fieldManager": manager}, media=APPLY_PATCH)


def _change_type(old: str, new: dict[str, Any], applied: dict[str, Any]) -> list[Step]:
    """Change the type of a service, and apply a field that it has lost."""
    typed = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "one"}}
    path, query = f"{_SERVICES}/one", {"fieldManager": "ada"}
    return [
        Step("POST", _SERVICES, {"metadata": {"name": "one"}, "spec": {"type": old, "ports": [{"port": 80}]}}),
        Step("PATCH", path, {"spec": new}, media=MERGE_PATCH),
        Step("PATCH", path, {**typed, "spec": applied}, query=query, media=APPLY_PATCH),
    ]


def _scale(*changes: Step, **spec: Any) -> list[Step]:
    """Scale a gadget between applies; `changes` come last."""
    typed = {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "one"}}
    return [Step("POST", _GADGETS, {**typed, "spec": {"size": 1, **spec}}), *changes, _apply_replicas(5)]


def _apply_replicas(replicas: int, manager: str = "bob") -> Step:
    body = {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "one"}}
    query = {"fieldManager": manager}
    return Step("PATCH", f"{_GADGETS}/one", {**body, "spec": {"replicas": replicas}}, query=query, media=APPLY_PATCH)


def _slice(media: str = "", **fields: Any) -> Step:
    """Create a slice, or apply or update it."""
    typed = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
    body = {**typed, "metadata": {"name": "two"}, **fields}
    if not media:
        return Step("PUT", f"{_SLICES}/two", body)
    return Step("PATCH", f"{_SLICES}/two", body, query={"fieldManager": "ada"}, media=media)


_PATCH_SCALE = Step("PATCH", f"{_GADGETS}/one/scale", {"spec": {"replicas": 3}}, media=MERGE_PATCH)
_PUT_SCALE = Step("PUT", f"{_GADGETS}/one/scale", {"metadata": {"name": "one"}, "spec": {"replicas": 3}})
SEQUENCES: dict[str, list[Step]] = {
    "the first events of a watch tell only of managers": [
        Step("POST", _SLICES, {"metadata": {"name": "two"}, "addressType": "IPv4"}),
        Step(WATCH, _SLICES, query={"resourceVersion": "{now}"}),
        _slice(endpoints=[]),
        _slice(ports=[]),
        _slice(APPLY_PATCH),
        _slice(metadata={"name": "two", "labels": {"a": "b"}}),
    ],
    "an update of a slice does not manage the ports that it leaves": [
        _slice(APPLY_PATCH, ports=[{"name": "http", "port": 80}]),
        Step("PATCH", f"{_SLICES}/two", {"endpoints": [], "ports": [{"name": "http", "port": 80}]}, media=MERGE_PATCH),
        _slice(APPLY_PATCH, endpoints=[], ports=[]),
        _slice(APPLY_PATCH, ports=[{"port": 81}]),
        _slice(ports=[{"port": 81}]),
        _slice(APPLY_PATCH, ports=[]),
    ],
    "the creator of a namespace manages the finalizer that it would also have by default": [
        _create(_KUBERNETES),
        _apply(_OTHER),
    ],
    "an update without the finalizers of a namespace leaves them without a manager": [
        _create(_OTHER),
        _put(None),
        _apply(_KUBERNETES),
    ],
    "an update without the default finalizer of a namespace, too": [_create(_KUBERNETES), _put(None), _apply([])],
    "an update without applied finalizers leaves no manager": [_apply(_OTHER), _put([]), _apply(_KUBERNETES, "bob")],
    "a patch that sets the finalizers of a namespace manages them": [_create(None), _merge(_OTHER), _apply([])],
    "a patch that removes the finalizers of a namespace": [_create(_OTHER), _merge(None), _apply(_KUBERNETES)],
    "an update of a finalized namespace": [_create(None), _put(_OTHER, "/finalize"), _put([]), _apply(_KUBERNETES)],
    "a service that loses the traffic policy of its old type": _change_type(
        "NodePort",
        {"type": "ExternalName", "externalName": "a.b"},
        {"externalTrafficPolicy": "Cluster", "sessionAffinity": "ClientIP"},
    ),
    "a service that loses a field of load balancers": _change_type(
        "LoadBalancer", {"type": "NodePort"}, {"allocateLoadBalancerNodePorts": True, "type": "NodePort"}
    ),
    "a patch of a Scale manages only replicas that had a manager": _scale(_PATCH_SCALE),
    "a patch of a Scale manages replicas that had a manager": _scale(_PATCH_SCALE, replicas=1),
    "a patch of a Scale takes applied replicas": _scale(_apply_replicas(1, "ada"), _PATCH_SCALE),
    "an update of a Scale leaves the replicas without a manager": _scale(_PUT_SCALE, replicas=1),
    "an update of a Scale takes applied replicas from their manager": _scale(_apply_replicas(3, "ada"), _PUT_SCALE),
}
