"""Finds keywords that the schema of a CRD must not have, or not with such values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pliant.embedded.schema.field_errors import (
    FieldError,
    forbidden_field,
    invalid_field,
    required_field,
    unsupported_value,
)

JsonSchema = Mapping[str, Any]
_JSON_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_LIST_TYPES, _MAP_TYPES = ("atomic", "map", "set"), ("atomic", "granular")
_NOT_SUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_TYPE_META: Final = ("metadata", "kind", "apiVersion")


def find_keyword_errors(
    schema: JsonSchema, path: str, *, is_root: bool = True, is_meta: bool = False, allows_default: bool = True
) -> Iterator[FieldError]:
    """Yield the errors of a schema and of all schemas in it; `is_meta` is set within the metadata of a resource."""
    yield from _find_node_errors(schema, path, is_meta=is_meta, allows_default=allows_default)
    additional, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if additional is not None and properties and additional is not True:
        yield forbidden_field(
            f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"
        )
    below: dict[str, Any] = {"is_root": False, "is_meta": is_meta, "allows_default": allows_default}
    if isinstance(additional, Mapping):
        allowed = {**below, "allows_default": allows_default and not is_meta}
        yield from find_keyword_errors(additional, f"{path}.additionalProperties", **allowed)
    for name, child in properties.items():
        options = below
        if name in _TYPE_META and (is_root or schema.get("x-kubernetes-embedded-resource")):
            options = {**below, "is_meta": True, "allows_default": allows_default and not is_root}
        yield from find_keyword_errors(child, f"{path}.properties[{name}]", **options)
    for part_path, part in _find_parts(schema, path):
        yield from find_keyword_errors(part, part_path, **below)


def _find_parts(schema: JsonSchema, path: str) -> Iterator[tuple[str, JsonSchema]]:
    for keyword in ("not", "items"):
        if isinstance(schema.get(keyword), Mapping):
            yield f"{path}.{keyword}", schema[keyword]
    for keyword in ("allOf", "oneOf", "anyOf", "items"):
        if isinstance(schema.get(keyword), list):
            yield from ((f"{path}.{keyword}[{index}]", part) for index, part in enumerate(schema[keyword]))
    for keyword in ("definitions", "dependencies"):
        for name, part in (schema.get(keyword) or {}).items():
            if isinstance(part, Mapping):
                yield f"{path}.{keyword}[{name}]", part


def _find_node_errors(schema: JsonSchema, path: str, *, is_meta: bool, allows_default: bool) -> Iterator[FieldError]:
    json_type = schema.get("type") or ""
    if json_type and json_type not in _JSON_TYPES:
        yield unsupported_value(f"{path}.type", json_type, _JSON_TYPES)
    if json_type == "null":
        yield forbidden_field(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if schema.get("default") is not None and not allows_default:
        yield forbidden_field(f"{path}.default", "must not be set in the metadata of an object")
    for keyword in _NOT_SUPPORTED:
        if schema.get(keyword) or (keyword in ("additionalItems", "$ref", "dependencies") and keyword in schema):
            yield forbidden_field(f"{path}.{keyword}", f"{keyword} is not supported")
    if isinstance(schema.get("items"), list):
        yield forbidden_field(f"{path}.items", "items must be a schema object and not an array")
    if is_meta and schema.get("x-kubernetes-embedded-resource"):
        yield forbidden_field(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")
    yield from _find_extension_errors(schema, path)
    yield from _find_list_errors(schema, path)


def _find_extension_errors(schema: JsonSchema, path: str) -> Iterator[FieldError]:
    json_type = schema.get("type") or ""
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", detail)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid_field(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    for keyword, required, values in (
        ("x-kubernetes-map-type", "object", _MAP_TYPES),
        ("x-kubernetes-list-type", "array", _LIST_TYPES),
    ):
        if (value := schema.get(keyword)) is None:
            continue
        if json_type != required:
            detail = f"must be {required} if {keyword} is specified"
            yield (
                invalid_field(f"{path}.type", json_type, detail)
                if json_type
                else required_field(f"{path}.type", detail)
            )
        if value not in values:
            yield unsupported_value(f"{path}.{keyword}", value, values)


def _find_list_errors(schema: JsonSchema, path: str) -> Iterator[FieldError]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    items = schema.get("items")
    if keys and list_type is None:
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required_field(f"{path}.x-kubernetes-list-type", detail)
    elif keys and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield invalid_field(f"{path}.x-kubernetes-list-type", list_type, detail)
    if list_type == "set" and schema.get("type") == "array" and isinstance(items, Mapping):
        yield from _find_set_errors(items, path)
    if list_type == "map":
        yield from _find_map_errors(schema, items, keys, path)
    if list_type in ("set", "map") and isinstance(items, Mapping):
        if items.get("nullable"):
            yield forbidden_field(
                f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}"
            )
        if list_type == "map":
            yield from _find_key_errors(items, keys, path)


def _find_set_errors(items: JsonSchema, path: str) -> Iterator[FieldError]:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and items.get("x-kubernetes-list-type") not in (None, "atomic"):
        yield invalid_field(f"{path}.items.x-kubernetes-list-type", items["x-kubernetes-list-type"], detail)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid_field(f"{path}.items.x-kubernetes-map-type", items.get("x-kubernetes-list-type"), detail)


def _find_map_errors(schema: JsonSchema, items: Any, keys: list[str], path: str) -> Iterator[FieldError]:
    if not keys:
        yield required_field(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    if "items" not in schema:
        yield required_field(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if not isinstance(items, Mapping):
        yield invalid_field(f"{path}.items", items, "must only have a single schema if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid_field(f"{path}.items.type", items.get("type") or "", detail)
        return
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key not in properties:
            yield invalid_field(
                f"{path}.x-kubernetes-list-map-keys", keys, "entries must all be names of item properties"
            )
        elif properties[key].get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid_field(f"{path}.items.properties[{key}].type", items["type"], detail)
        if key in keys[:index]:
            yield invalid_field(f"{path}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries")


def _find_key_errors(items: JsonSchema, keys: list[str], path: str) -> Iterator[FieldError]:
    prefix = "this property is in x-kubernetes-list-map-keys, so it"
    for key in keys:
        found = (items.get("properties") or {}).get(key)
        if found is None:
            continue
        if key not in (items.get("required") or ()) and found.get("default") is None:
            detail = f"{prefix} must have a default or be a required property"
            yield required_field(f"{path}.items.properties[{key}].default", detail)
        if found.get("nullable"):
            yield forbidden_field(f"{path}.items.properties[{key}].nullable", f"{prefix} cannot be nullable")
