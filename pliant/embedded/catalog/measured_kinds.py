"""What pods and nodes use: measured when somebody asks, and kept nowhere."""

from __future__ import annotations

from typing import Any, Final

from pliant.embedded.catalog.kinds import Kind
from pliant.embedded.schema import Schema
from pliant.embedded.schema.metadata import as_resource

_USAGE: Final[dict[str, Any]] = {
    "type": "object",
    "additionalProperties": {"x-kubernetes-int-or-string": True},
}
_CONTAINER: Final = {"type": "object", "properties": {"name": {"type": "string"}, "usage": _USAGE}}
_WHEN: Final = {"timestamp": {"type": "string", "format": "date-time"}, "window": {"type": "string"}}


def measured_kinds() -> tuple[Kind, ...]:
    """The kinds that `kubectl top` reads."""
    containers = {"containers": {"type": "array", "items": _CONTAINER}}
    return (
        _measured("NodeMetrics", "nodes", {"usage": _USAGE}, namespaced=False),
        _measured("PodMetrics", "pods", containers, namespaced=True),
    )


def _measured(kind: str, plural: str, told: dict[str, Any], *, namespaced: bool) -> Kind:
    return Kind(
        group="metrics.k8s.io",
        version="v1beta1",
        plural=plural,
        singular=plural.removesuffix("s"),
        kind=kind,
        namespaced=namespaced,
        list_kind=f"{kind}List",
        verbs=("get", "list"),
        schema=Schema(as_resource({"type": "object", "properties": {**told, **_WHEN}})),
    )
