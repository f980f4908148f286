"""What the server adds to volume claims and refuses of them beyond their schema."""

from __future__ import annotations

from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.storage.stored_objects import Object
from pliant.kube.quantity import parse_quantity

PERSISTENT_VOLUME_CLAIMS = "/persistentvolumeclaims"
PVC_PROTECTION_FINALIZER = "kubernetes.io/pvc-protection"
"""Keeps a claim until no pod uses it."""
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def set_pvc_defaults(claim: Object, old: Object | None) -> None:
    """Protect a new claim, and begin its status."""
    if old is None:
        finalizers = claim["metadata"].setdefault("finalizers", [])
        if PVC_PROTECTION_FINALIZER not in finalizers:
            finalizers.append(PVC_PROTECTION_FINALIZER)
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def validate_pvc(claim: Object, old: Object | None) -> list[FieldError]:
    """How much, and for whom."""
    if old is not None:
        return []
    spec = claim.get("spec") or {}
    problems = []
    modes = spec.get("accessModes") or []
    if not modes:
        problems.append(
            FieldError.of("spec.accessModes", FieldErrorType.REQUIRED, None, "at least 1 access mode is required")
        )
    for mode in modes:
        if mode not in _ACCESS_MODES:
            words = ", ".join(f'"{each}"' for each in _ACCESS_MODES)
            problems.append(
                FieldError.of("spec.accessModes", FieldErrorType.UNSUPPORTED, mode, f"supported values: {words}")
            )
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        problems.append(FieldError.of("spec.resources[storage]", FieldErrorType.REQUIRED, None, ""))
    elif parse_quantity(size) <= 0:
        problems.append(
            FieldError.of("spec.resources[storage]", FieldErrorType.INVALID, size, "must be greater than zero")
        )
    return problems
