"""Checks of a server-side apply, in the order of kube-apiserver: its type, the types of its fields, and the result."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.handlers.write_checks import require_matching_name
from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.patch.managed_fields import merge_schema
from pliant.embedded.apiserver.patch.typed_configurations import find_type_problems
from pliant.embedded.apiserver.protobuf.typed_objects import read_typed_object
from pliant.embedded.apiserver.protobuf.typed_values import TypeMismatch
from pliant.embedded.storage.stored_objects import Object

_TIMES_OF_SERVER = ("creationTimestamp", "deletionTimestamp")


def check_configuration(info: RequestInfo, desired: Object) -> None:
    """Check the type and the fields of an applied configuration before it is merged.

    It keeps its empty fields, which its manager then owns; its values are read when it is merged.
    """
    kind = info.kind
    group, version = _parse_api_version(desired.get("apiVersion"))
    name = desired.get("kind") if isinstance(desired.get("kind"), str) else ""
    if (group, version, name) != (kind.group, kind.version, kind.kind):
        raise errors.bad_request(f"invalid object type: {group}/{version}, Kind={name}")
    metadata = desired.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
        raise errors.bad_request("metadata.managedFields must be nil")
    problems = list(find_type_problems(desired, merge_schema(kind), is_builtin=not kind.is_custom))
    if not problems and kind.schema is not None:
        unknown = kind.schema.prune(desired, keep_nulls=True)
        if kind.conversion is not None:  # which has no schema for merging
            problems = [f".{field}: field not declared in schema" for field in unknown]
    if problems:
        text = problems[0] if len(problems) == 1 else "\n  ".join(("errors:", *problems))
        raise errors.unexpected_error(f"failed to create typed patch object ({_title(info, desired)}): {text}")
    if desired.get("metadata") is None:
        desired["metadata"] = {}
    desired["metadata"].pop("managedFields", None)


def read_merged(info: RequestInfo, desired: Object, merged: Object) -> None:
    """Read the values of a merged object as the types of their fields, and check its name."""
    kind, metadata = info.kind, merged["metadata"]
    if kind.is_custom:
        for field in _TIMES_OF_SERVER:  # ignored, of whatever type
            if field in desired["metadata"]:
                metadata.pop(field, None)
    try:
        read_typed_object(kind.api_version, kind.kind, merged)
    except TypeMismatch as error:
        message = f"failed to convert new object ({_title(info, desired)}) to proper version: {error}"
        raise errors.unexpected_error(message) from None
    require_matching_name(info, metadata)


def _title(info: RequestInfo, desired: Object) -> str:
    """Return an applied configuration as messages name it."""
    metadata = desired.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    namespace, name = (each if isinstance(each, str) else "" for each in map(fields.get, ("namespace", "name")))
    return f"{namespace}/{name}; {info.kind.group}/{info.kind.version}, Kind={info.kind.kind}"


def _parse_api_version(value: Any) -> tuple[str, str]:
    if not isinstance(value, str) or value.count("/") > 1:
        return "", ""
    group, _, version = value.rpartition("/")
    return group, version
