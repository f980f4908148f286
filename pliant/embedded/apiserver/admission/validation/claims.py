"""Defaults and validation of PersistentVolumeClaims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation.label_selectors import validate_label_selector
from pliant.embedded.apiserver.admission.validation.names import (
    validate_dns_label,
    validate_name,
    validate_qualified_name,
)
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object
from pliant.errors import Forbidden
from pliant.schemas.quantity import parse_quantity

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_IMMUTABLE_MESSAGE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


PVC_PROTECTION_FINALIZER: Final = "kubernetes.io/pvc-protection"
_SNAPSHOT_GROUP: Final = "snapshot.storage.k8s.io"
_RESIZE_STATUSES: Final = (
    *("ControllerResizeInProgress", "ControllerResizeInfeasible"),
    *("NodeResizePending", "NodeResizeInProgress", "NodeResizeInfeasible"),
)


def set_claim_defaults(claim: Object, old: Object | None) -> None:
    if old is None:
        finalizers = claim["metadata"].setdefault("finalizers", [])
        if PVC_PROTECTION_FINALIZER not in finalizers:
            finalizers.append(PVC_PROTECTION_FINALIZER)
    status = claim.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"
    spec = claim.setdefault("spec", {})
    if "dataSource" in spec or "dataSourceRef" in spec:
        _set_data_sources(spec, (old or {}).get("spec") or {})


def _set_data_sources(spec: Object, before: Object) -> None:
    """Give both forms of the data source the same content; drop those that API servers ignore."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if (reference or {}).get("namespace") and "dataSourceRef" not in before:
        reference = None
    if not before.keys() & {"dataSource", "dataSourceRef"} and reference is None and not _is_known_source(source or {}):
        source = None
    if source is not None and reference is None:
        reference = {**source}
    elif reference is not None and source is None and not reference.get("namespace"):
        source = {field: value for field, value in reference.items() if field != "namespace"}
    for field, value in (("dataSource", source), ("dataSourceRef", reference)):
        spec.pop(field, None)
        if value is not None:
            spec[field] = {"apiGroup": None, **value}  # a field that API servers always write


def _is_known_source(source: Object) -> bool:
    known = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", _SNAPSHOT_GROUP))
    return (source.get("kind"), source.get("apiGroup") or "") in known


def validate_claim(claim: Object, old: Object | None) -> list[FieldError]:
    spec = claim.get("spec") or {}
    errors: list[FieldError] = []
    if old is not None:
        errors += _validate_status(claim.get("status") or {})
    if old is not None and spec == old.get("spec"):
        return errors
    errors += validate_claim_spec(spec, "spec")
    if old is not None:
        errors += _validate_update(claim, old)
        if not errors:
            _require_same_size(claim, old)
    return errors


def _require_same_size(claim: Object, old: Object) -> None:
    """Raise `Forbidden` if a claim grows: no storage class allows it."""
    if parse_quantity(_requested_size(claim["spec"]) or 0) > parse_quantity(_requested_size(old["spec"]) or 0):
        name = claim["metadata"]["name"]
        message = f'persistentvolumeclaims "{name}" is forbidden: only dynamically provisioned pvc can be resized and '
        message += "the storageclass that provisions the pvc must support resize"
        raise Forbidden(403, "Forbidden", message, details={"name": name, "kind": "persistentvolumeclaims"})


def _validate_status(status: Object) -> Iterator[FieldError]:
    for field in ("capacity", "allocatedResources"):
        for name, amount in (status.get(field) or {}).items():
            key_errors = list(_validate_resource_name(name, f"status.{field}")) if field != "capacity" else []
            yield from key_errors
            if not key_errors and parse_quantity(amount) < 0:
                yield invalid_field(f"status.{field}[{name}]", amount, "must be a valid resource quantity")
    for name, value in (status.get("allocatedResourceStatuses") or {}).items():
        yield from _validate_resource_name(name, path := "status.allocatedResourceStatuses")
        if value not in _RESIZE_STATUSES:
            yield unsupported_value(path, name, _RESIZE_STATUSES)


def _validate_resource_name(name: str, path: str) -> Iterator[FieldError]:
    if errors := list(validate_qualified_name(path, name)):
        yield from errors
    elif ("/" not in name or "kubernetes.io/" in name) and name != "storage":
        yield unsupported_value(path, name, ("storage",))


def _validate_data_sources(spec: Object, path: str) -> Iterator[FieldError]:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, each in (("dataSource", source), ("dataSourceRef", reference)):
        if each is not None:
            yield from _validate_data_source(each, f"{path}.{field}")
    namespace = (reference or {}).get("namespace")
    if namespace:
        yield from validate_dns_label(f"{path}.dataSourceRef.namespace", namespace)
    if source is None or reference is None:
        return
    if namespace:
        yield invalid_field(
            path, f"{path}.dataSource", "may not be specified when dataSourceRef.namespace is specified"
        )
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        yield invalid_field(path, f"{path}.dataSource", "must match dataSourceRef")


def _validate_data_source(source: Object, path: str) -> Iterator[FieldError]:
    for field in ("name", "kind"):
        if not source.get(field):
            yield required_field(f"{path}.{field}")
    kind, group = source.get("kind") or "", source.get("apiGroup") or ""
    if not group and kind != "PersistentVolumeClaim":
        yield invalid_field(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
    if group:
        yield from validate_name(f"{path}.apiGroup", group)


def validate_claim_spec(spec: Object, path: str) -> Iterator[FieldError]:
    """Yield the errors of the spec of a claim, or of a template of claims."""
    modes = spec.get("accessModes") or []
    if not modes:
        yield required_field(f"{path}.accessModes", "at least 1 access mode is required")
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield unsupported_value(f"{path}.accessModes", mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode in _ACCESS_MODES[:3] for mode in modes):
        yield forbidden_field(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes")
    yield from validate_label_selector(spec.get("selector") or {}, f"{path}.selector")
    size = _requested_size(spec)
    if size is None:
        yield required_field(f"{path}.resources[storage]")
    elif parse_quantity(size) <= 0:
        yield invalid_field(f"{path}.resources[storage]", size, "must be greater than zero")
    yield from _validate_data_sources(spec, path)
    for field in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(field):
            yield from validate_name(f"{path}.{field}", spec[field])


def _requested_size(spec: Object) -> str | None:
    size: str | None = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    return size


def _with_size(resources: Object, size: str | None) -> Object:
    requests = resources.get("requests")
    return {**resources, "requests": {**requests, "storage": size}} if requests else resources


def _validate_update(claim: Object, old: Object) -> Iterator[FieldError]:
    spec, before = {**claim["spec"]}, {**old["spec"]}
    is_bound = (claim.get("status") or {}).get("phase") == "Bound"
    if not before.get("volumeName"):
        before.pop("volumeName", None)
        spec.pop("volumeName", None)
    if before.get("storageClassName") is None:  # a claim without a class may get one later
        spec.pop("storageClassName", None)
    size, old_size = _requested_size(spec), _requested_size(before)
    if is_bound:  # its size may change
        spec["resources"] = _with_size(spec.get("resources") or {}, old_size)
        spec["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
        before.setdefault("volumeAttributesClassName", None)
    if spec != before:
        yield forbidden_field("spec", _IMMUTABLE_MESSAGE)
    if parse_quantity(size or 0) < parse_quantity(old_size or 0):
        capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage") or 0
        if parse_quantity(size or 0) <= parse_quantity(capacity):
            yield forbidden_field("spec.resources.requests.storage", "field can not be less than status.capacity")
    if spec.get("volumeMode") != before.get("volumeMode"):
        yield invalid_field("volumeMode", spec.get("volumeMode"), "field is immutable")
