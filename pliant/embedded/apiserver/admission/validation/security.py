"""Validation of the security contexts of pods and containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.http.errors import invalid_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_MAX_ID: Final = 2**31 - 1
_ID_MESSAGE: Final = f"must be between 0 and {_MAX_ID}, inclusive"


def validate_container_security(context: Object, path: str) -> Iterator[FieldError]:
    """Yield the errors of user and group, and of privileges that contradict each other."""
    yield from _validate_ids(context, path, "runAsUser", "runAsGroup")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid_field(path, context, detail)
        added = (context.get("capabilities") or {}).get("add") or ()
        if "CAP_SYS_ADMIN" in added:
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid_field(path, context, detail)


def validate_pod_security(spec: Object) -> Iterator[FieldError]:
    context, path = spec.get("securityContext") or {}, "spec.securityContext"
    yield from _validate_ids(context, path, "fsGroup", "runAsUser", "runAsGroup")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= _MAX_ID:
            yield invalid_field(f"{path}.supplementalGroups[{index}]", group, _ID_MESSAGE)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid_field(f"{path}.shareProcessNamespace", True, detail)


def _validate_ids(context: Object, path: str, *fields: str) -> Iterator[FieldError]:
    for field in fields:
        value = context.get(field)
        if value is not None and not 0 <= value <= _MAX_ID:
            yield invalid_field(f"{path}.{field}", value, _ID_MESSAGE)
