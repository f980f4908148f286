"""Finds unknown and misplaced keywords in the schemas of a CRD, which contain schemas to any depth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from pliant.embedded.apiserver.patch.field_sets import FieldPath, MergeSchema
from pliant.embedded.apiserver.patch.typed_configurations import find_type_problems
from pliant.embedded.apiserver.protobuf.descriptors import MessageDescriptor, find_message, require_message
from pliant.embedded.storage.stored_objects import Object

_SCHEMA: Final = "apiextensions.v1.JSONSchemaProps"
_JSON_TYPES: Final = {"string": "string", "bool": "boolean", "int": "integer", "double": "number"}

_OMITTED_IF_EMPTY: Final[Object] = {
    **{name: [] for name in ("enum", "allOf", "oneOf", "anyOf", "x-kubernetes-list-map-keys")},
    **{name: {} for name in ("definitions", "dependencies", "patternProperties")},
}
_REFUSED_IF_EMPTY: Final[Object] = {"dependencies": {}}


def prune_crd_schemas(crd: Object) -> list[str]:
    """Remove unknown keywords, and fields of status subresources, in place, and return their paths.

    The types of all values are right.
    """
    unknown: list[str] = []
    for index, version in enumerate((crd.get("spec") or {}).get("versions") or ()):
        status = (version.get("subresources") or {}).get("status")
        if status:  # an object without fields, of which the schema of CRDs does not say so
            unknown += [f"spec.versions[{index}].subresources.status.{name}" for name in status]
            status.clear()
    for index, schema in _iterate_schemas(crd):
        _prune(require_message(_SCHEMA), schema, f"spec.versions[{index}].schema.openAPIV3Schema", unknown)
    return unknown


def find_schema_type_problems(crd: Object) -> Iterator[str]:
    """Yield the problems of the schemas of an applied CRD: wrong types, unknown keywords, and equal rules."""
    for index, schema in _iterate_schemas(crd):
        path: FieldPath = ("f:spec", "f:versions", f"i:{index}", "f:schema", "f:openAPIV3Schema")
        yield from find_type_problems(schema, _keywords_schema(), path, is_builtin=True)


def find_empty_keywords(crd: Object) -> list[tuple[Object, Object]]:
    """Return the empty keywords that API servers tell from missing ones when they validate a CRD, with their schemas.

    They are not stored. Within a schema, only `dependencies` is one of them.
    """
    if not isinstance(crd.get("spec"), dict):
        return []
    found = []
    for _, schema in _iterate_schemas(crd):
        found.append((schema, _select_empty(schema, _OMITTED_IF_EMPTY)))
        found += [(inner, _select_empty(inner, _REFUSED_IF_EMPTY)) for inner in _iterate_inner_schemas(schema)]
    return [(schema, keywords) for schema, keywords in found if keywords]


def _select_empty(schema: Object, empty_values: Object) -> Object:
    return {name: schema[name] for name, empty in empty_values.items() if schema.get(name) == empty}


def _iterate_inner_schemas(schema: Object) -> Iterator[Object]:
    fields = require_message(_SCHEMA).by_json_name
    for name, member in schema.items():
        message = find_message(fields[name].type_name) if name in fields else None
        if message is None or not (message.is_union or message.name == _SCHEMA):
            continue
        for _, inner in _members(member, is_map=fields[name].is_map):
            if isinstance(inner, dict):
                yield inner
                yield from _iterate_inner_schemas(inner)


def drop_empty_keywords(crd: Object) -> None:
    """Remove the empty keywords of each schema in place."""
    for schema, keywords in find_empty_keywords(crd):
        for name in keywords:
            del schema[name]


def _iterate_schemas(crd: Object) -> Iterator[tuple[int, Object]]:
    versions = (crd.get("spec") or {}).get("versions") or ()
    for index, version in enumerate(versions if isinstance(versions, list) else ()):
        schema = version.get("schema") if isinstance(version, dict) else None
        if isinstance(schema, dict) and isinstance(schema.get("openAPIV3Schema"), dict):
            yield index, schema["openAPIV3Schema"]


@cache
def _keywords_schema() -> MergeSchema:
    """Return the schema of schemas, which contains itself."""
    known: dict[str, dict[str, Any]] = {}

    def describe(type_name: str) -> dict[str, Any]:
        message = find_message(type_name)
        if message is None or message.is_union:
            return {"type": _JSON_TYPES[type_name]} if type_name in _JSON_TYPES else {}
        if type_name not in known:
            properties: dict[str, Any] = {}
            known[type_name] = {"type": "object", "properties": properties}
            for name, field in message.by_json_name.items():
                inner = describe(field.type_name)
                if field.is_map:
                    inner = {"type": "object", "additionalProperties": inner}
                properties[name] = (
                    {"type": "array", "items": inner} if field.is_repeated and not field.is_map else inner
                )
        return known[type_name]

    result = describe(_SCHEMA)
    rules = result["properties"]["x-kubernetes-validations"]
    rules["items"]["required"] = ["rule"]
    rules["items"]["properties"]["rule"]["default"] = ""
    rules |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["rule"]}
    return result


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
