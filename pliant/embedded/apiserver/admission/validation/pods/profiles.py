"""Validation of the seccomp and AppArmor profiles of pods and containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation.paths import validate_relative_path
from pliant.embedded.apiserver.http.errors import invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.storage.stored_objects import Object

_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_MAX_PROFILE_BYTES: Final = 4095


def validate_profiles(context: Object, path: str) -> Iterator[FieldError]:
    """Yield the errors of both profiles of a security context."""
    if (seccomp := context.get("seccompProfile")) is not None:
        yield from _validate_seccomp(seccomp, f"{path}.seccompProfile")
    if (app_armor := context.get("appArmorProfile")) is not None:
        yield from _validate_app_armor(app_armor, f"{path}.appArmorProfile")


def _validate_type(profile: Object, path: str, title: str) -> Iterator[FieldError]:
    kind = profile.get("type") or ""
    if not kind:
        yield required_field(f"{path}.type", f"type is required when {title} is set")
    elif kind not in _TYPES:
        yield unsupported_value(f"{path}.type", kind, _TYPES)


def _validate_seccomp(profile: Object, path: str) -> Iterator[FieldError]:
    yield from _validate_type(profile, path, "seccompProfile")
    local, path = profile.get("localhostProfile"), f"{path}.localhostProfile"
    if profile.get("type") != "Localhost":
        if local is not None:
            yield invalid_field(path, local, "can only be set when seccomp type is Localhost")
    elif local is None:
        yield required_field(path, "must be set when seccomp type is Localhost")
    else:
        yield from validate_relative_path(local, path)


def _validate_app_armor(profile: Object, path: str) -> Iterator[FieldError]:
    yield from _validate_type(profile, path, "appArmorProfile")
    kind, local, path = profile.get("type"), profile.get("localhostProfile"), f"{path}.localhostProfile"
    if kind in ("RuntimeDefault", "Unconfined") and local is not None:
        yield invalid_field(path, local, "can only be set when AppArmor type is Localhost")
    if kind != "Localhost":
        return
    if local is not None and local.strip() != local:
        yield invalid_field(path, local, "must not be padded with whitespace")
    elif not local:
        yield required_field(path, "must be set when AppArmor type is Localhost")
    elif len(local.encode()) > _MAX_PROFILE_BYTES:
        yield FieldError.of(path, FieldErrorType.TOO_LONG, "", f"may not be more than {_MAX_PROFILE_BYTES} bytes")
