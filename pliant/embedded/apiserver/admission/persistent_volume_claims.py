"""Defaulting and validation of PersistentVolumeClaims."""

from __future__ import annotations

from pliant.embedded.apiserver.http.errors import invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object
from pliant.kube.quantity import parse_quantity

PERSISTENT_VOLUME_CLAIMS = "/persistentvolumeclaims"
PVC_PROTECTION_FINALIZER = "kubernetes.io/pvc-protection"
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def set_pvc_defaults(claim: Object, old: Object | None) -> None:
    if old is None:
        finalizers = claim["metadata"].setdefault("finalizers", [])
        if PVC_PROTECTION_FINALIZER not in finalizers:
            finalizers.append(PVC_PROTECTION_FINALIZER)
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def validate_pvc(claim: Object, old: Object | None) -> list[FieldError]:
    if old is not None:
        return []
    spec = claim.get("spec") or {}
    modes = spec.get("accessModes") or []
    errors = [] if modes else [required_field("spec.accessModes", "at least 1 access mode is required")]
    errors += [
        unsupported_value("spec.accessModes", mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES
    ]
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        errors.append(required_field("spec.resources[storage]"))
    elif parse_quantity(size) <= 0:
        errors.append(invalid_field("spec.resources[storage]", size, "must be greater than zero"))
    return errors
