"""Groups of pods that start together or not at all, in the two dialects that job controllers speak."""

from __future__ import annotations

from typing import Any, Final

from pliant.embedded.catalog.crds import kinds_of
from pliant.embedded.catalog.kinds import Kind

_QUANTITIES: Final[dict[str, Any]] = {
    "type": "object",
    "additionalProperties": {"x-kubernetes-int-or-string": True},
}
_NUMBER: Final = {"type": "integer", "format": "int32"}
_STATUS: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_COSCHEDULING: Final = {
    "minMember": {**_NUMBER, "minimum": 1},
    "minResources": _QUANTITIES,
    "scheduleTimeoutSeconds": _NUMBER,
}
_VOLCANO: Final = {
    "minMember": {**_NUMBER, "minimum": 0},
    "minTaskMember": {"type": "object", "additionalProperties": _NUMBER},
    "minResources": _QUANTITIES,
    "queue": {"type": "string", "default": "default"},
    "priorityClassName": {"type": "string"},
}


def gang_kinds() -> tuple[Kind, ...]:
    """PodGroups of the coscheduling plug-in and of Volcano; a CRD of the same name takes their place."""
    return (
        *_pod_group("scheduling.x-k8s.io", "v1alpha1", _COSCHEDULING, ("pg", "pgs")),
        *_pod_group("scheduling.volcano.sh", "v1beta1", _VOLCANO, ("vgpg",)),
    )


def _pod_group(group: str, version: str, spec: dict[str, Any], short: tuple[str, ...]) -> tuple[Kind, ...]:
    shown = (("Status", "string", ".status.phase"), ("minMember", "integer", ".spec.minMember"))
    columns = [{"name": name, "type": kind, "jsonPath": path} for name, kind, path in shown]
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}, "status": _STATUS}}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [*columns, age],
    }
    names = {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup", "shortNames": list(short)}
    definition = {
        "metadata": {"name": f"podgroups.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }
    return kinds_of(definition)
