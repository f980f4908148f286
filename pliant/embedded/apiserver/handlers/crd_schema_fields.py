"""Removes unknown keywords from the schemas of a CRD, which contain schemas to any depth."""

from __future__ import annotations

from typing import Any, Final

from pliant.embedded.apiserver.protobuf.descriptors import MessageDescriptor, find_message, require_message
from pliant.embedded.storage.stored_objects import Object

_SCHEMA: Final = "apiextensions.v1.JSONSchemaProps"


def prune_crd_schemas(crd: Object) -> list[str]:
    """Remove unknown keywords in place, and return their paths; the types of all values are right."""
    unknown: list[str] = []
    versions = (crd.get("spec") or {}).get("versions") or ()
    for index, version in enumerate(versions if isinstance(versions, list) else ()):
        schema = version.get("schema") if isinstance(version, dict) else None
        if isinstance(schema, dict) and isinstance(schema.get("openAPIV3Schema"), dict):
            path = f"spec.versions[{index}].schema.openAPIV3Schema"
            _prune(require_message(_SCHEMA), schema["openAPIV3Schema"], path, unknown)
    return unknown


def _prune(message: MessageDescriptor, value: Object, path: str, unknown: list[str]) -> None:
    for name in [name for name in value if name not in message.by_json_name]:
        del value[name]
        unknown.append(f"{path}.{name}")
    for name, member in value.items():
        field = message.by_json_name[name]
        below = find_message(field.type_name)
        if below is None:
            continue
        # Go drops unknown keywords without a word where something else than a schema may stand.
        found = [] if below.is_union else unknown
        below = require_message(_SCHEMA) if below.is_union else below
        for segment, each in _members(member, is_map=field.is_map):
            if isinstance(each, dict):
                _prune(below, each, f"{path}.{name}{segment}", found)


def _members(value: Any, *, is_map: bool) -> list[tuple[str, Any]]:
    if isinstance(value, dict) and is_map:
        return [(f"[{name}]", each) for name, each in value.items()]
    if isinstance(value, list):
        return [(f"[{index}]", each) for index, each in enumerate(value)]
    return [("", value)]
