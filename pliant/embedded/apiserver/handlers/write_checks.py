"""Checks of a write that need no stored object: its options, and the type, name and fields of its body."""

from __future__ import annotations

from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.patch.server_side_apply import is_apply_patch
from pliant.embedded.apiserver.protobuf.typed_objects import read_typed_object
from pliant.embedded.apiserver.protobuf.typed_values import TypeMismatch
from pliant.embedded.schema import FieldError, FieldErrorType, deep_copy
from pliant.embedded.storage.stored_objects import Object
from pliant.errors import BadRequest

_FIELD_VALIDATION_MODES = ("", "Ignore", "Strict", "Warn")
_MAX_FIELD_MANAGER_BYTES = 128


def validate_write_options(info: RequestInfo) -> None:
    """Raise `Invalid` with all errors in the query of a create, update or patch."""
    found = _validate_field_manager(info.query_text("fieldManager"))
    dry_run = info.query_text("dryRun")
    if dry_run not in ("", "All"):
        found.append(errors.unsupported_value("dryRun", [dry_run], ["All"]))
    mode = info.query_text("fieldValidation")
    if mode not in _FIELD_VALIDATION_MODES:
        found.append(errors.unsupported_value("fieldValidation", mode, _FIELD_VALIDATION_MODES))
    is_patch = info.request.method == "PATCH"
    if is_patch and info.query_text("force") and not is_apply_patch(info):
        found.append(errors.forbidden_field("force", "may not be specified for non-apply patch"))
    if is_patch and is_apply_patch(info) and not info.query_text("fieldManager"):
        found.append(errors.required_field("fieldManager", "is required for apply patch"))
    if found:
        raise errors.invalid_options(info.request.method, *found)


def _validate_field_manager(name: str) -> list[FieldError]:
    found = [
        errors.invalid_field("fieldManager", name, f"invalid character U+{ord(char):04X} (at position {index})")
        for index, char in enumerate(name)
        if not char.isprintable()
    ]
    if len(name.encode()) > _MAX_FIELD_MANAGER_BYTES:
        detail = f"may not be more than {_MAX_FIELD_MANAGER_BYTES} bytes"
        found.append(FieldError.of("fieldManager", FieldErrorType.TOO_LONG, None, detail))
    return found


def check_and_prune(info: RequestInfo, obj: Object) -> list[str]:
    """Check type and name of an object, remove unknown fields, and return the warnings about them."""
    kind = info.kind
    if not kind.is_custom:  # built-in kinds may leave out their type, which the path contains
        obj["kind"] = obj.get("kind") or kind.kind
        obj["apiVersion"] = obj.get("apiVersion") or kind.api_version
    if kind.is_custom and obj.get("apiVersion") == kind.api_version and obj.get("kind") not in (None, "", kind.kind):
        error = errors.invalid_field("kind", obj["kind"], f"must be {kind.kind}")
        raise errors.invalid_object(kind, info.name, [error])
    try:
        errors.require_type(obj, kind.api_version, kind.kind)
    except BadRequest as error:
        if info.request.method == "PATCH" and not is_apply_patch(info):
            raise errors.invalid_patch(error.message) from None
        raise
    # What a manager applies keeps its empty fields, which it then owns.
    read_typed(info, deep_copy(obj) if is_apply_patch(info) else obj)
    metadata = obj.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise errors.bad_request("metadata must be an object")
    metadata.pop("managedFields", None)
    if info.namespace and metadata.get("namespace") not in (None, "", info.namespace):
        message = "the namespace of the provided object does not match the namespace sent on the request"
        raise errors.bad_request(message)
    name = metadata.get("name") or ""
    if info.name and name != info.name and (name or not is_apply_patch(info)):
        message = f"the name of the object ({name}) does not match the name on the URL ({info.name})"
        raise errors.bad_request(message)
    mode = info.query_text("fieldValidation") or "Warn"
    unknown = kind.schema.prune(obj) if kind.schema is not None else []
    if unknown and is_apply_patch(info):
        raise errors.undeclared_fields_error(unknown)
    if unknown and mode == "Strict" and info.request.method == "PATCH":
        raise errors.invalid_patch("strict decoding error: " + errors.unknown_fields_text(unknown))
    if unknown and mode == "Strict":
        raise errors.unknown_fields_error(kind, unknown)
    return [f'unknown field "{field}"' for field in unknown] if mode == "Warn" else []


def read_typed(info: RequestInfo, obj: Object) -> None:
    """Read values as the types of their fields; a patch that leaves a wrong type is itself invalid."""
    kind = info.kind
    try:
        read_typed_object(kind.api_version, kind.kind, obj)
    except TypeMismatch as error:
        if info.request.method == "PATCH" and not is_apply_patch(info):
            raise errors.invalid_patch(str(error)) from None
        problem = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise errors.bad_request(problem) from None
