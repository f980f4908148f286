"""Validation of PersistentVolumeClaims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation.label_selectors import validate_label_selector
from pliant.embedded.apiserver.admission.validation.names import validate_name
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object
from pliant.schemas.quantity import parse_quantity

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SIZE_PATH: Final = "spec.resources[storage]"
_IMMUTABLE_MESSAGE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def validate_claim(claim: Object, old: Object | None) -> list[FieldError]:
    spec = claim.get("spec") or {}
    if old is not None and spec == old.get("spec"):
        return []
    errors = list(_validate_spec(spec))
    return errors if old is None else [*errors, *_validate_update(claim, old)]


def _validate_spec(spec: Object) -> Iterator[FieldError]:
    modes = spec.get("accessModes") or []
    if not modes:
        yield required_field("spec.accessModes", "at least 1 access mode is required")
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield unsupported_value("spec.accessModes", mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode in _ACCESS_MODES[:3] for mode in modes):
        yield forbidden_field("spec.accessModes", "may not use ReadWriteOncePod with other access modes")
    yield from validate_label_selector(spec.get("selector") or {}, "spec.selector")
    size = _requested_size(spec)
    if size is None:
        yield required_field(_SIZE_PATH)
    elif parse_quantity(size) <= 0:
        yield invalid_field(_SIZE_PATH, size, "must be greater than zero")
    for field in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(field):
            yield from validate_name(f"spec.{field}", spec[field])


def _requested_size(spec: Object) -> str | None:
    size: str | None = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    return size


def _validate_update(claim: Object, old: Object) -> Iterator[FieldError]:
    spec, before = {**claim["spec"]}, {**old["spec"]}
    is_bound = (claim.get("status") or {}).get("phase") == "Bound"
    if not before.get("volumeName"):
        before.pop("volumeName", None)
        spec.pop("volumeName", None)
    if before.get("storageClassName") is None:  # a claim without a class may get one later
        spec.pop("storageClassName", None)
    size, old_size = _requested_size(spec), _requested_size(before)
    if is_bound:
        spec["resources"], spec["volumeAttributesClassName"] = (
            before.get("resources"),
            before.get("volumeAttributesClassName"),
        )
        before.setdefault("volumeAttributesClassName", None)
    if spec != before:
        yield forbidden_field("spec", _IMMUTABLE_MESSAGE)
    if parse_quantity(size or 0) < parse_quantity(old_size or 0):
        capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage") or 0
        if parse_quantity(size or 0) <= parse_quantity(capacity):
            yield forbidden_field("spec.resources.requests.storage", "field can not be less than status.capacity")
    if spec.get("volumeMode") != before.get("volumeMode"):
        yield invalid_field("volumeMode", spec.get("volumeMode"), "field is immutable")
