"""Defaults and validation of leases."""

from __future__ import annotations

from pliant.embedded.apiserver.http.errors import invalid_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object


def drop_disabled_lease_fields(lease: Object, old: Object | None) -> None:
    """Drop the fields of coordinated leader election, which API servers have disabled by default."""
    for field in ("strategy", "preferredHolder"):
        (lease.get("spec") or {}).pop(field, None)


def validate_lease(lease: Object, old: Object | None) -> list[FieldError]:
    spec = lease.get("spec") or {}
    errors = []
    if (duration := spec.get("leaseDurationSeconds")) is not None and duration <= 0:
        errors.append(invalid_field("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if (transitions := spec.get("leaseTransitions")) is not None and transitions < 0:
        errors.append(invalid_field("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return errors
