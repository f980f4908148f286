"""Rejects schemas that are not structural, as Kubernetes does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pliant.embedded.schema.field_errors import to_json_text
from pliant.embedded.schema.formats import compile_go_pattern
from pliant.embedded.schema.validators import compile_validator
from pliant.errors import InvalidSpec

_JSON_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean"})
_COMBINATORS: Final = ("allOf", "anyOf", "oneOf")
_UNSUPPORTED_KEYWORDS: Final = ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems")
_FORBIDDEN_IN_COMBINATORS: Final = (
    *("type", "default", "nullable", "title", "description", "additionalProperties"),
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
    "x-kubernetes-validations",
)
"""Keywords that a schema inside allOf, anyOf, oneOf or not must not have."""

_NOT_A_SCHEMA_MESSAGE: Final = "must be a schema, that is, an object"


def require_structural(schema: Any, field_path: str) -> None:
    """Raise InvalidSpec with the path at which a schema is not structural."""
    if not isinstance(schema, Mapping):
        raise InvalidSpec(field_path, _NOT_A_SCHEMA_MESSAGE)
    if schema.get("type") != "object":
        raise InvalidSpec(
            f"{field_path}.type", f'Invalid value: "{schema.get("type", "")}": must be object at the root'
        )
    _require_structural_node(schema, field_path)


def _require_structural_node(schema: Any, field_path: str) -> None:
    if not isinstance(schema, Mapping):
        raise InvalidSpec(field_path, _NOT_A_SCHEMA_MESSAGE)
    _require_type(schema, field_path)
    _require_valid_keywords(schema, field_path)
    _require_valid_default(schema, field_path)
    for name, child in schema.get("properties", {}).items():
        _require_structural_node(child, f"{field_path}.properties[{name}]")
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping) and additional:
        _require_structural_node(additional, f"{field_path}.additionalProperties")
    if "items" in schema:
        _require_structural_node(schema["items"], f"{field_path}.items")
    for part_path, part in _combinator_parts(schema, field_path):
        _require_structural_part(part, part_path, is_int_or_string=bool(schema.get("x-kubernetes-int-or-string")))


def _require_type(schema: Mapping[str, Any], field_path: str) -> None:
    json_type = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        if json_type:
            raise InvalidSpec(f"{field_path}.type", "must be empty if x-kubernetes-int-or-string is true")
        return
    if json_type is None:
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            raise InvalidSpec(f"{field_path}.type", "Required value: must not be empty for specified object fields")
    elif json_type not in _JSON_TYPES:
        names = ", ".join(f'"{name}"' for name in sorted(_JSON_TYPES))
        raise InvalidSpec(f"{field_path}.type", f'Unsupported value: "{json_type}": supported values: {names}')
    if json_type == "array" and "items" not in schema:
        raise InvalidSpec(f"{field_path}.items", "Required value: must be specified")
    if schema.get("x-kubernetes-embedded-resource") and json_type != "object":
        raise InvalidSpec(f"{field_path}.type", "must be object if x-kubernetes-embedded-resource is true")


def _require_valid_keywords(schema: Mapping[str, Any], field_path: str) -> None:
    for keyword in _UNSUPPORTED_KEYWORDS:
        if keyword in schema:
            raise InvalidSpec(f"{field_path}.{keyword}", f"Forbidden: {keyword} is not supported")
    if schema.get("uniqueItems"):
        raise InvalidSpec(f"{field_path}.uniqueItems", "Forbidden: uniqueItems cannot be set to true")
    if schema.get("properties") and schema.get("additionalProperties"):
        raise InvalidSpec(
            f"{field_path}.additionalProperties", "Forbidden: additionalProperties and properties are mutual exclusive"
        )
    if not isinstance(schema.get("properties", {}), Mapping):
        raise InvalidSpec(f"{field_path}.properties", "must be an object of schemas")
    if "pattern" in schema:
        compile_go_pattern(schema["pattern"], f"{field_path}.pattern")
    list_type = schema.get("x-kubernetes-list-type")
    if list_type == "map":
        _require_map_keys(schema, field_path)
    elif list_type not in (None, "atomic", "set"):
        raise InvalidSpec(
            f"{field_path}.x-kubernetes-list-type",
            f'Unsupported value: "{list_type}": supported values: "atomic", "map", "set"',
        )


def _require_valid_default(schema: Mapping[str, Any], field_path: str) -> None:
    if "default" not in schema:
        return
    validate = compile_validator(schema)
    for error in (validate(schema["default"]) if validate is not None else None) or ():
        raise InvalidSpec(f"{field_path}.default", error.build().message)


def _require_map_keys(schema: Mapping[str, Any], field_path: str) -> None:
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys:
        raise InvalidSpec(
            f"{field_path}.x-kubernetes-list-map-keys",
            "Required value: must not be empty if x-kubernetes-list-type is map",
        )
    items = schema.get("items", {})
    if items.get("type") != "object":
        raise InvalidSpec(f"{field_path}.items.type", "must be object if parent array's x-kubernetes-list-type is map")
    if not items.get("properties", {}).keys() >= set(keys):
        message = f"Invalid value: {to_json_text(keys)}: entries must all be names of item properties"
        raise InvalidSpec(f"{field_path}.x-kubernetes-list-map-keys", message)


def _combinator_parts(schema: Mapping[str, Any], field_path: str) -> list[tuple[str, Any]]:
    parts = [
        (f"{field_path}.{combinator}[{index}]", part)
        for combinator in _COMBINATORS
        for index, part in enumerate(schema.get(combinator, ()))
    ]
    if "not" in schema:
        parts.append((f"{field_path}.not", schema["not"]))
    return parts


def _require_structural_part(schema: Any, field_path: str, *, is_int_or_string: bool) -> None:
    if not isinstance(schema, Mapping):
        raise InvalidSpec(field_path, _NOT_A_SCHEMA_MESSAGE)
    for keyword in _FORBIDDEN_IN_COMBINATORS:
        if keyword in schema and not (keyword == "type" and is_int_or_string):
            raise InvalidSpec(f"{field_path}.{keyword}", "Forbidden: must be empty to be structural")
    _require_valid_keywords(schema, field_path)
    for name, child in schema.get("properties", {}).items():
        _require_structural_part(child, f"{field_path}.properties[{name}]", is_int_or_string=False)
    if "items" in schema:
        _require_structural_part(schema["items"], f"{field_path}.items", is_int_or_string=False)
    for part_path, part in _combinator_parts(schema, field_path):
        _require_structural_part(part, part_path, is_int_or_string=is_int_or_string)
