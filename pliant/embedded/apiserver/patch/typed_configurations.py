"""Checks the types of an applied configuration, whose fields are merged by the types that the schema gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from pliant.embedded.apiserver.patch.field_sets import (
    FieldPath,
    MergeSchema,
    field_schema,
    format_field_path,
    list_item_path_element,
)

_MAX_VALUE_CHARACTERS: Final = 60
_SCALARS: Final = (str, int, float, bool)
_EXPECTED: Final[dict[str, tuple[str, tuple[type, ...]]]] = {
    "object": ("map", (dict,)),
    "array": ("list", (list,)),
    "string": ("string", (str,)),
    "boolean": ("boolean", (bool,)),
    "integer": ("numeric (int or float)", (int, float)),
    "number": ("numeric (int or float)", (int, float)),
}
_ANY_SCALAR: Final = ("any scalar", _SCALARS)
_TYPE_FIELDS: Final = ("apiVersion", "kind")


def find_type_problems(
    value: Any,
    schema: MergeSchema,
    path: FieldPath = (),
    *,
    is_builtin: bool,
    is_stored: bool = False,
    keeps_unknown: bool = False,
) -> Iterator[str]:
    """Yield the problems of a value, with their paths: wrong types, undeclared fields, and items without distinct keys.

    In built-in kinds, a required field has an empty value by default. A stored object may have duplicates and fields
    that are not declared any more.
    """
    if value is None:
        return
    if (expected := _expected_types(schema)) is not None:
        name, types = expected
        if type(value) not in types:
            yield f"{format_field_path(path) or '.'}: expected {name}, got {_shorten(value)}"
            return
    keeps_unknown = keeps_unknown or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if isinstance(value, dict):
        for field, inner in value.items():
            if _is_undeclared(field, schema, path) and not keeps_unknown and not is_stored:
                yield f"{format_field_path((*path, f'f:{field}'))}: field not declared in schema"
                continue
            is_resource = not path or schema.get("x-kubernetes-embedded-resource")
            is_metadata = bool(is_resource) and field == "metadata"
            yield from find_type_problems(
                inner,
                field_schema(schema, field),
                (*path, f"f:{field}"),
                is_builtin=is_builtin or is_metadata,
                is_stored=is_stored,
                keeps_unknown=keeps_unknown and not is_metadata,
            )
    elif isinstance(value, list):
        flags = {"is_builtin": is_builtin, "is_stored": is_stored, "keeps_unknown": keeps_unknown}
        yield from _find_list_problems(value, schema, path, **flags)


def _expected_types(schema: MergeSchema) -> tuple[str, tuple[type, ...]] | None:
    """Return the name and the types of the values that a field can have, or None if it can have all."""
    expected = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return None
    if expected is None:
        return _ANY_SCALAR if "pattern" in schema else None  # a quantity
    if expected == "string" and schema.get("format") not in (None, "", "byte"):
        return _ANY_SCALAR
    return _EXPECTED[expected]


def _is_undeclared(field: str, schema: MergeSchema, path: FieldPath) -> bool:
    declared = schema.get("properties")
    if not declared or field in declared or schema.get("additionalProperties"):
        return False
    return bool(path) or field not in _TYPE_FIELDS


def _find_list_problems(
    items: list[Any], schema: MergeSchema, path: FieldPath, *, is_builtin: bool, is_stored: bool, keeps_unknown: bool
) -> Iterator[str]:
    inner = schema.get("items") or {}
    list_type = schema.get("x-kubernetes-list-type")
    found: set[str] = set()
    for index, item in enumerate(items):
        element = f"i:{index}"
        if list_type in ("map", "set"):
            if problem := _find_key_problem(item, schema, is_builtin=is_builtin):
                yield f"{format_field_path(path)}: element {index}: {problem}"
                return  # the others have no path
            element = list_item_path_element(item, schema)
            if element in found and not is_stored:
                yield f"{format_field_path(path)}: duplicate entries for key {format_field_path((element,))}"
            found.add(element)
        flags = {"is_builtin": is_builtin, "is_stored": is_stored, "keeps_unknown": keeps_unknown}
        yield from find_type_problems(item, inner, (*path, element), **flags)


def _find_key_problem(item: Any, schema: MergeSchema, *, is_builtin: bool) -> str:
    """Return why an item of a list cannot be told from the others."""
    if schema["x-kubernetes-list-type"] == "set":
        title = {type(None): "an explicit null", dict: "a map", list: "a list"}.get(type(item))
        return f"associative list without keys has an element that is {title}" if title else ""
    if not isinstance(item, dict):
        return f"associative list with keys may not have a {'null' if item is None else 'non-map'} element"
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    has_defaults = is_builtin and set(keys) & set((schema.get("items") or {}).get("required") or ())
    if list_item_path_element(item, schema) == "k:{}" and not has_defaults:
        names = ", ".join(f'"{key}"' for key in keys)
        return f"associative list with keys has an element that omits all key fields [{names}]"
    return ""


def _shorten(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[:_MAX_VALUE_CHARACTERS]}…"
