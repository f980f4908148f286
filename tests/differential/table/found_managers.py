"""Sequences whose conflicts once named other managers: of fields that the server restores or drops."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, MERGE_PATCH
from tests.differential.steps import Step

_NAMESPACES = "/api/v1/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{run}}-one"
_SERVICES = "/api/v1/namespaces/{run}-a/services"
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


SEQUENCES: dict[str, list[Step]] = {
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
}
