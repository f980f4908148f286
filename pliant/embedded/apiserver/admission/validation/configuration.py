"""Validation of ConfigMaps and Secrets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Final

import msgspec

from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field, required_field
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.field_errors import FieldErrorType
from pliant.embedded.schema.metadata import config_key_problem
from pliant.embedded.storage.stored_objects import Object

MAX_CONFIG_BYTES: Final = 1024 * 1024  # of the values of a ConfigMap or Secret
IMMUTABLE_MESSAGE: Final = "field is immutable when `immutable` is set"
_ACCOUNT_ANNOTATION: Final = "kubernetes.io/service-account.name"
_REQUIRED_SECRET_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def validate_config_map(config: Object, old: Object | None) -> list[FieldError]:
    return [*_validate_immutable(config, old, "data", "binaryData"), *_validate_keys(config)]


def validate_secret(secret: Object, old: Object | None) -> list[FieldError]:
    errors = [*_validate_immutable(secret, old, "data"), *_validate_keys(secret), *_validate_secret_type(secret)]
    if old is not None and secret.get("type") != old.get("type"):
        errors.append(invalid_field("type", secret.get("type"), "field is immutable"))
    return errors


def _validate_immutable(obj: Object, old: Object | None, *fields: str) -> Iterator[FieldError]:
    if old is None or not old.get("immutable"):
        return
    if not obj.get("immutable"):
        yield forbidden_field("immutable", IMMUTABLE_MESSAGE)
    for field in fields:
        if obj.get(field) != old.get(field):
            yield forbidden_field(field, IMMUTABLE_MESSAGE)


def _validate_keys(obj: Object) -> Iterator[FieldError]:
    """Yield the errors of the keys, which become file names, and of the total size."""
    data, binary_data = obj.get("data") or {}, obj.get("binaryData") or {}
    for field, key in [("data", key) for key in data] + [("binaryData", key) for key in binary_data]:
        if message := config_key_problem(key):
            yield invalid_field(f"{field}[{key}]", key, message)
    for key in data:
        if key in binary_data:
            yield invalid_field(f"data[{key}]", key, "duplicate of key present in binaryData")
    size = sum(len(value.encode()) for value in data.values()) + sum(map(len, binary_data.values()))
    # base64 is a third longer than what it encodes.
    is_secret = obj.get("kind") == "Secret"
    encoded = [*binary_data.values(), *(data.values() if is_secret else ())]
    size -= sum(map(len, encoded)) // 4
    if size > MAX_CONFIG_BYTES:
        limit = f"may not be more than {MAX_CONFIG_BYTES} bytes"
        yield FieldError.of("data" if is_secret else "", FieldErrorType.TOO_LONG, "", limit)


def _validate_secret_type(secret: Object) -> Iterator[FieldError]:
    kind, data = secret.get("type"), secret.get("data") or {}
    if kind == "kubernetes.io/service-account-token":
        if not (secret["metadata"].get("annotations") or {}).get(_ACCOUNT_ANNOTATION):
            yield required_field(f"metadata.annotations[{_ACCOUNT_ANNOTATION}]")
    elif kind == "kubernetes.io/basic-auth" and not data.keys() & {"username", "password"}:
        yield required_field("data[username]")
        yield required_field("data[password]")
    for key in _REQUIRED_SECRET_KEYS.get(kind or "", ()):
        if key not in data or (key == "ssh-privatekey" and not data[key]):
            yield required_field(f"data[{key}]")
        elif key.startswith(".docker") and not _is_json_object(data[key]):
            yield invalid_field(f"data[{key}]", "<secret contents redacted>", "must be a JSON object")


def _is_json_object(encoded: str) -> bool:
    try:
        return msgspec.json.decode(base64.b64decode(encoded)) is None or isinstance(
            msgspec.json.decode(base64.b64decode(encoded)), dict
        )
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return False
