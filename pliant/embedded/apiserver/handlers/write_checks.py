"""Checks of a write that need no stored object: its options, and the type, name and fields of its body."""

from __future__ import annotations

import re

from pliant.embedded.apiserver.admission.admission import merge_string_data
from pliant.embedded.apiserver.handlers.crd_schema_fields import find_empty_keywords, prune_crd_schemas
from pliant.embedded.apiserver.handlers.object_lifecycle import CRDS_RESOURCE_KEY
from pliant.embedded.apiserver.handlers.protected_fields import written_empty_bytes
from pliant.embedded.apiserver.handlers.whole_numbers import read_large_numbers, to_stored_numbers
from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.patch.server_side_apply import is_apply_patch
from pliant.embedded.apiserver.protobuf.typed_objects import (
    read_object_metadata,
    read_typed_object,
    written_empty_lists,
)
from pliant.embedded.apiserver.protobuf.typed_values import TypeMismatch, mismatch, with_converted_numbers
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.schema.embedded_resources import find_values
from pliant.embedded.storage.stored_objects import Object
from pliant.errors import BadRequest
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH

_SECRETS_RESOURCE_KEY = "/secrets"
_FIELD_VALIDATION_MODES = ("", "Ignore", "Strict", "Warn")
_MAX_FIELD_MANAGER_BYTES = 128
_LARGE_NUMBER = re.compile(rb"\d{10}|\d[eE]")
_UNUSUAL_NUMBER = re.compile(rb"\d(\.\d|[eE])|\d{19}")
"""A number with a fraction or exponent, or one that may have more than 64 bits."""


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
    kind, is_patch = info.kind, info.request.method == "PATCH"
    _check_type(info, obj)
    empty = written_empty_lists(kind.api_version, kind.kind, obj)
    if info.name:
        empty |= written_empty_bytes(kind, obj)
    empty_keywords = find_empty_keywords(obj) if kind.resource_key == CRDS_RESOURCE_KEY else []
    read_typed(info, obj)
    obj |= empty
    for schema, keywords in empty_keywords:
        schema |= keywords
    if kind.resource_key == _SECRETS_RESOURCE_KEY:  # before the managers of the fields are determined
        merge_string_data(obj)
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    metadata = obj["metadata"]
    if not isinstance(metadata, dict) and is_patch:
        raise errors.invalid_patch("metadata must be an object")
    if not isinstance(metadata, dict):
        raise errors.bad_request("metadata must be an object")
    metadata.pop("managedFields", None)
    warnings = _drop_duplicate_owners(metadata)
    mode = info.query_text("fieldValidation") or "Warn"
    is_strict = mode == "Strict" and kind.is_custom
    unknown = kind.schema.prune(obj, is_strict=is_strict) if kind.schema is not None else []
    if kind.resource_key == CRDS_RESOURCE_KEY:
        unknown += prune_crd_schemas(obj)
    if kind.is_custom and (obj.get("kind"), obj.get("apiVersion")) != (kind.kind, kind.api_version):
        unknown = []  # the object is refused for its type
    if unknown and mode == "Strict" and is_patch:
        raise errors.invalid_patch("strict decoding error: " + errors.unknown_fields_text(unknown))
    if unknown and mode == "Strict":
        raise errors.unknown_fields_error(kind, unknown)
    require_matching_name(info, metadata)
    if obj.get("apiVersion") in (None, ""):  # only a patch of a custom object can remove it
        raise errors.internal_error("Object 'apiVersion' is missing in 'object has no apiVersion field'")
    return [*warnings, *(f'unknown field "{field}"' for field in unknown if mode == "Warn")]


def _drop_duplicate_owners(metadata: Object) -> list[str]:
    """Remove owners that are listed twice, and return a warning about them."""
    owners = metadata.get("ownerReferences")
    if not isinstance(owners, list) or len(owners) < 2:
        return []
    unique = [owner for index, owner in enumerate(owners) if owner not in owners[:index]]
    if len(unique) == len(owners):
        return []
    metadata["ownerReferences"] = unique
    return ["metadata.ownerReferences contains duplicate entries; they are removed"]


def require_matching_name(info: RequestInfo, metadata: Object) -> None:
    """Raise `BadRequest` unless an object has the name of the path, and its namespace or none."""
    if info.namespace and metadata.get("namespace") not in (None, "", info.namespace):
        message = "the namespace of the provided object does not match the namespace sent on the request"
        raise errors.bad_request(message)
    name = metadata.get("name") or ""
    if info.name and name != info.name:
        message = f"the name of the object ({name}) does not match the name on the URL ({info.name})"
        raise errors.bad_request(message)


def _check_type(info: RequestInfo, obj: Object) -> None:
    """Check apiVersion and kind; the type of a patched custom object is checked when the object is validated."""
    kind, is_patch = info.kind, info.request.method == "PATCH"
    if is_patch and not kind.is_custom:
        _read_patched_type(info, obj)
    elif not kind.is_custom:  # built-in kinds may leave out their type, which the path contains
        for field, value in (("kind", kind.kind), ("apiVersion", kind.api_version)):
            if obj.get(field) in (None, ""):
                obj[field] = value
    given = obj
    if kind.is_custom and isinstance(obj.get("kind"), str) and obj["kind"]:
        given = {**obj, "kind": kind.kind}
        if is_patch and isinstance(obj.get("apiVersion", ""), str):
            given["apiVersion"] = kind.api_version
    try:
        errors.require_type(given, kind.api_version, kind.kind)
    except BadRequest as error:
        if is_patch:
            raise errors.invalid_patch(error.message) from None
        raise


def _read_patched_type(info: RequestInfo, obj: Object) -> None:
    """Set the type of a patched object as API servers do: strategic merge patches cannot change it."""
    kind = info.kind
    if not all(isinstance(obj.get(field), str | None) for field in ("kind", "apiVersion")):
        raise errors.invalid_patch("kind and apiVersion must be strings")
    if obj.get("kind") in (None, ""):
        obj["kind"] = kind.kind
    if info.request.content_type.partition(";")[0].strip() == STRATEGIC_MERGE_PATCH:
        for field, value in (("kind", kind.kind), ("apiVersion", kind.api_version)):
            if isinstance(obj.get(field) or "", str):
                obj[field] = value
    elif obj.get("apiVersion") in (None, "") and obj["kind"] != kind.kind:
        raise errors.invalid_patch(f"{obj['kind']} cannot be handled as a {kind.kind}")
    elif obj.get("apiVersion") in (None, "") and info.query_text("fieldValidation") == "Strict":
        raise errors.invalid_patch("strict decoding error: no field is known without apiVersion")
    elif obj.get("apiVersion") in (None, ""):
        message = f"the name of the object ({info.name} based on URL) was undeterminable: name must be provided"
        raise errors.bad_request(message)


def read_embedded_resources(kind: Kind, obj: Object) -> None:
    """Read the type and the metadata of the embedded resources of a custom object in place."""
    for path in kind.schema.embedded_paths if kind.schema is not None else ():
        for resource in find_values(obj, path):
            if isinstance(resource, dict):
                for field in ("apiVersion", "kind"):
                    if field in resource and not isinstance(resource[field], str):
                        raise mismatch(resource[field], "a string").below(f".{field}")
                if resource.get("metadata", {}) is None:
                    resource["metadata"] = {}
                if not isinstance(resource.get("metadata", {}), dict):
                    raise mismatch(resource["metadata"], "an object").below(".metadata")
                read_object_metadata(resource)


def read_numbers(info: RequestInfo, obj: Object, *, is_applied: bool = False) -> None:
    """Read the numbers of a custom or applied object as Go does, which has no whole numbers with a fraction in YAML."""
    if _UNUSUAL_NUMBER.search(info.request.body):
        (to_stored_numbers if is_applied else read_large_numbers)(obj)


def convert_numbers(info: RequestInfo, obj: Object) -> None:
    """Let the numbers of an applied object take the size of their fields, in place; later, they are read."""
    if _LARGE_NUMBER.search(info.request.body):
        obj |= with_converted_numbers(obj)


def read_typed(info: RequestInfo, obj: Object) -> None:
    """Read values as the types of their fields; a patch that leaves a wrong type is itself invalid."""
    kind = info.kind
    try:
        read_typed_object(kind.api_version, kind.kind, obj)
        if kind.is_custom:
            read_embedded_resources(kind, obj)
            read_numbers(info, obj)
    except TypeMismatch as error:
        if info.request.method == "PATCH":
            raise errors.invalid_patch(str(error)) from None
        problem = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise errors.bad_request(problem) from None
