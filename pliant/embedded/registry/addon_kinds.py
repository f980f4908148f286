"""PodGroup and metrics kinds, served without a CRD."""

from __future__ import annotations

from typing import Any, Final

from pliant.embedded.registry.crds import kinds_of_crd
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import Schema
from pliant.embedded.schema.metadata import with_object_metadata

_AGE_PRINTER_COLUMN: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _kinds_of_crd(group: str, names: dict[str, Any], version: dict[str, Any]) -> tuple[Kind, ...]:
    versions = [{**version, "served": True, "storage": True}]
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    return kinds_of_crd({"metadata": {"name": f"{names['plural']}.{group}"}, "spec": spec})


_QUANTITIES: Final[dict[str, Any]] = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
_INT32: Final = {"type": "integer", "format": "int32"}
_FREE_FORM_STATUS: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_COSCHEDULING_SPEC: Final = {
    "minMember": {**_INT32, "minimum": 1},
    "minResources": _QUANTITIES,
    "scheduleTimeoutSeconds": _INT32,
}
_VOLCANO_SPEC: Final = {
    "minMember": {**_INT32, "minimum": 0},
    "minTaskMember": {"type": "object", "additionalProperties": _INT32},
    "minResources": _QUANTITIES,
    "queue": {"type": "string", "default": "default"},
    "priorityClassName": {"type": "string"},
}


def pod_group_kinds() -> tuple[Kind, ...]:
    """Return the PodGroups of the coscheduling plugin and of Volcano; a CRD of the same name replaces them."""
    return (
        *_pod_group_kind("scheduling.x-k8s.io", "v1alpha1", _COSCHEDULING_SPEC, ("pg", "pgs")),
        *_pod_group_kind("scheduling.volcano.sh", "v1beta1", _VOLCANO_SPEC, ("vgpg",)),
    )


def _pod_group_kind(
    group: str, version: str, spec_properties: dict[str, Any], short_names: tuple[str, ...]
) -> tuple[Kind, ...]:
    columns = [
        {"name": "Status", "type": "string", "jsonPath": ".status.phase"},
        {"name": "minMember", "type": "integer", "jsonPath": ".spec.minMember"},
        _AGE_PRINTER_COLUMN,
    ]
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": spec_properties}, "status": _FREE_FORM_STATUS},
    }
    served_version = {
        "name": version,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
    }
    names = {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup", "shortNames": list(short_names)}
    return _kinds_of_crd(group, names, served_version)


_CONTAINER_METRICS: Final = {"type": "object", "properties": {"name": {"type": "string"}, "usage": _QUANTITIES}}
_SAMPLE_TIME: Final = {"timestamp": {"type": "string", "format": "date-time"}, "window": {"type": "string"}}


def metrics_kinds() -> tuple[Kind, ...]:
    containers = {"containers": {"type": "array", "items": _CONTAINER_METRICS}}
    return (
        _metrics_kind("NodeMetrics", "nodes", {"usage": _QUANTITIES}, namespaced=False),
        _metrics_kind("PodMetrics", "pods", containers, namespaced=True),
    )


def _metrics_kind(kind: str, plural: str, properties: dict[str, Any], *, namespaced: bool) -> Kind:
    return Kind(
        group="metrics.k8s.io",
        version="v1beta1",
        plural=plural,
        singular=plural.removesuffix("s"),
        kind=kind,
        namespaced=namespaced,
        list_kind=f"{kind}List",
        verbs=("get", "list"),
        schema=Schema(with_object_metadata({"type": "object", "properties": {**properties, **_SAMPLE_TIME}})),
    )
