"""The fields that the API server sets itself, which therefore have no manager."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.patch.field_sets import FieldPath
from pliant.embedded.apiserver.protobuf.typed_objects import is_always_written
from pliant.embedded.storage.stored_objects import Object

_PHASES_SET_BY_SERVER = {
    "Namespace": ("Active", "Terminating"),
    "PersistentVolumeClaim": ("Pending",),
    "Pod": ("Pending",),
}
_SET_BY_SERVER = {
    "Namespace": [("f:spec", "f:finalizers")],
    "PersistentVolumeClaim": [("f:spec", "f:dataSourceRef")],
    "Pod": [("f:spec", f"f:{name}") for name in ("priority", "preemptionPolicy")],
    "Service": [("f:spec", f"f:{name}") for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")],
}
_GENERATED_JOB_LABELS = frozenset(
    f"f:{prefix}{name}" for prefix in ("", "batch.kubernetes.io/") for name in ("controller-uid", "job-name")
)


def is_set_by_server(path: FieldPath, obj: Object) -> bool:
    """Return whether admission, allocation or encoding has likely set a field, which therefore has no manager."""
    name = path[0].removeprefix("f:")
    if len(path) == 1 and _is_zero(obj.get(name)) and is_always_written(obj["apiVersion"], obj["kind"], name):
        return True  # an empty object has this value, too
    if path[0] == "f:status":
        return _is_first_status(path, obj)
    if path[:2] == ("f:spec", "f:tolerations") and obj["kind"] == "Pod":
        tolerations = obj["spec"].get("tolerations") or ()
        return all(str(each.get("key")).startswith("node.kubernetes.io/") for each in tolerations)
    if obj["kind"] == "Job" and not obj["spec"].get("manualSelector"):
        return path[:2] == ("f:spec", "f:selector") or path[-1] in _GENERATED_JOB_LABELS
    if path[:2] not in _SET_BY_SERVER.get(obj["kind"], ()):
        return False
    value = obj["spec"].get(path[1].removeprefix("f:"))
    if obj["kind"] == "Namespace":
        return bool(value == ["kubernetes"])
    return value not in ("None", "PreferDualStack")  # only clients choose these


def _is_zero(value: Any) -> bool:
    """Return whether a field has the value that it has in Go if it is not set; optional booleans have none."""
    return value is None or (value in (0, "") and value is not False)


def _is_first_status(path: FieldPath, obj: Object) -> bool:
    """Return whether a field of a status has the value that a new object has, or that its deletion sets."""
    name = path[1].removeprefix("f:") if len(path) > 1 else ""
    if obj["kind"] == "Pod" and name == "conditions":
        return all(each.get("reason") == "SchedulingGated" for each in obj["status"].get("conditions") or ())
    value = obj["status"].get(name)
    is_phase = name == "phase" and value in _PHASES_SET_BY_SERVER.get(obj["kind"], ())
    return name in ("qosClass", "storedVersions") or _is_zero(value) or is_phase
