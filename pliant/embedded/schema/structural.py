"""Refuses schemas that are not structural: every field must have one clear type, stated in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pliant.embedded.schema.checks import compile_check
from pliant.embedded.schema.formats import compiled_pattern
from pliant.errors import InvalidSpec

_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean"})
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf")
_FORBIDDEN: Final = ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems")
_OUTSIDE_ONLY: Final = (
    "type",
    "default",
    "nullable",
    "title",
    "description",
    "additionalProperties",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
)
"""What a schema inside allOf, anyOf, oneOf or not may not say: it only narrows what stands outside."""

_PLACE: Final = "must be a schema, that is, an object"


def require_structural(schema: Any, where: str) -> None:
    """Raise InvalidSpec naming the place where a schema stops being structural."""
    if not isinstance(schema, Mapping):
        raise InvalidSpec(where, _PLACE)
    if schema.get("type") != "object":
        raise InvalidSpec(
            f"{where}.type", f'Invalid value: "{schema.get("type", "")}": must be object at the root'
        )
    _inspect(schema, where)


def _inspect(schema: Any, where: str) -> None:
    if not isinstance(schema, Mapping):
        raise InvalidSpec(where, _PLACE)
    _require_type(schema, where)
    _require_sound_keywords(schema, where)
    _require_sound_default(schema, where)
    for name, child in schema.get("properties", {}).items():
        _inspect(child, f"{where}.properties[{name}]")
    extra = schema.get("additionalProperties")
    if isinstance(extra, Mapping) and extra:
        _inspect(extra, f"{where}.additionalProperties")
    if "items" in schema:
        _inspect(schema["items"], f"{where}.items")
    for junctor, part in _parts(schema, where):
        _inspect_junctor(part, junctor, is_int_or_string=bool(schema.get("x-kubernetes-int-or-string")))


def _require_type(schema: Mapping[str, Any], where: str) -> None:
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        if kind:
            raise InvalidSpec(f"{where}.type", "must be empty if x-kubernetes-int-or-string is true")
        return
    if kind is None:
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            raise InvalidSpec(f"{where}.type", "Required value: must not be empty for specified object fields")
    elif kind not in _TYPES:
        names = ", ".join(f'"{name}"' for name in sorted(_TYPES))
        raise InvalidSpec(f"{where}.type", f'Unsupported value: "{kind}": supported values: {names}')
    if kind == "array" and "items" not in schema:
        raise InvalidSpec(f"{where}.items", "Required value: must be specified")
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        raise InvalidSpec(f"{where}.type", "must be object if x-kubernetes-embedded-resource is true")


def _require_sound_keywords(schema: Mapping[str, Any], where: str) -> None:
    for word in _FORBIDDEN:
        if word in schema:
            raise InvalidSpec(f"{where}.{word}", "Forbidden: not supported in a structural schema")
    if schema.get("uniqueItems"):
        raise InvalidSpec(f"{where}.uniqueItems", "Forbidden: uniqueItems cannot be set to true")
    if schema.get("properties") and schema.get("additionalProperties"):
        raise InvalidSpec(
            f"{where}.additionalProperties", "Forbidden: properties and additionalProperties exclude one another"
        )
    if not isinstance(schema.get("properties", {}), Mapping):
        raise InvalidSpec(f"{where}.properties", "must be an object of schemas")
    if "pattern" in schema:
        compiled_pattern(schema["pattern"], f"{where}.pattern")
    style = schema.get("x-kubernetes-list-type")
    if style == "map":
        _require_map_keys(schema, where)
    elif style not in (None, "atomic", "set"):
        raise InvalidSpec(
            f"{where}.x-kubernetes-list-type",
            f'Unsupported value: "{style}": supported values: "atomic", "map", "set"',
        )


def _require_sound_default(schema: Mapping[str, Any], where: str) -> None:
    if "default" not in schema:
        return
    check = compile_check(schema)
    for fault in (check(schema["default"]) if check is not None else None) or ():
        raise InvalidSpec(f"{where}.default", fault.problem().message)


def _require_map_keys(schema: Mapping[str, Any], where: str) -> None:
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys:
        raise InvalidSpec(
            f"{where}.x-kubernetes-list-map-keys", "Required value: must not be empty if list-type is map"
        )
    items = schema.get("items", {})
    if items.get("type") != "object":
        raise InvalidSpec(f"{where}.items.type", "must be object if x-kubernetes-list-type is map")
    for key in keys:
        if key not in items.get("properties", {}):
            raise InvalidSpec(f"{where}.x-kubernetes-list-map-keys", f'"{key}" must be a property of the items')


def _parts(schema: Mapping[str, Any], where: str) -> list[tuple[str, Any]]:
    parts = [
        (f"{where}.{junctor}[{index}]", part)
        for junctor in _JUNCTORS
        for index, part in enumerate(schema.get(junctor, ()))
    ]
    if "not" in schema:
        parts.append((f"{where}.not", schema["not"]))
    return parts


def _inspect_junctor(schema: Any, where: str, *, is_int_or_string: bool) -> None:
    if not isinstance(schema, Mapping):
        raise InvalidSpec(where, _PLACE)
    for word in _OUTSIDE_ONLY:
        if word in schema and not (word == "type" and is_int_or_string):
            raise InvalidSpec(f"{where}.{word}", "Forbidden: must be empty to be structural")
    _require_sound_keywords(schema, where)
    for name, child in schema.get("properties", {}).items():
        _inspect_junctor(child, f"{where}.properties[{name}]", is_int_or_string=False)
    if "items" in schema:
        _inspect_junctor(schema["items"], f"{where}.items", is_int_or_string=False)
    for place, part in _parts(schema, where):
        _inspect_junctor(part, place, is_int_or_string=is_int_or_string)
