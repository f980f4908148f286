"""Checks the types of an applied configuration, whose fields are merged by the types that the schema gives them."""

from __future__ import annotations

from typing import Any, Final

from pliant.embedded.apiserver.patch.field_sets import MergeSchema, field_schema, list_item_path_element

_SCALAR_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
}
_NAMES: Final = {
    "object": "map",
    "array": "list",
    "integer": "numeric (int or float)",
    "number": "numeric (int or float)",
}


def find_type_problem(value: Any, schema: MergeSchema, path: str = "", *, is_builtin: bool) -> str:
    """Return the first problem of a value, with its path; empty if its types are those of the schema.

    In built-in kinds, a required field has an empty value by default.
    """
    expected = schema.get("type")
    if value is None or expected is None or schema.get("x-kubernetes-int-or-string"):
        return ""
    types = {"object": (dict,), "array": (list,)}.get(expected) or _SCALAR_TYPES[expected]
    if type(value) not in types:
        return f"{path or '.'}: expected {_NAMES.get(expected, expected)}"
    if isinstance(value, dict):
        found = (_find_field_problem(name, inner, schema, path, is_builtin=is_builtin) for name, inner in value.items())
        return next(filter(None, found), "")
    return _find_list_problem(value, schema, path, is_builtin=is_builtin) if isinstance(value, list) else ""


def _find_field_problem(name: str, value: Any, schema: MergeSchema, path: str, *, is_builtin: bool) -> str:
    is_metadata = not path and name == "metadata"
    return find_type_problem(value, field_schema(schema, name), f"{path}.{name}", is_builtin=is_builtin or is_metadata)


def _find_list_problem(items: list[Any], schema: MergeSchema, path: str, *, is_builtin: bool) -> str:
    inner = schema.get("items") or {}
    for index, item in enumerate(items):
        if problem := find_type_problem(item, inner, f"{path}[{index}]", is_builtin=is_builtin):
            return problem
    list_type = schema.get("x-kubernetes-list-type")
    if list_type not in ("map", "set"):
        return ""
    keys: set[str] = set()
    for index, item in enumerate(items):
        if item is None:
            return f"{path}: element {index}: may not be null"
        key = list_item_path_element(item, schema)
        is_implied = is_builtin and set(schema.get("x-kubernetes-list-map-keys") or ()) & set(
            inner.get("required") or ()
        )
        if key == "k:{}" and not is_implied:
            return f"{path}: element {index}: omits all key fields"
        if key in keys:
            return f"{path}: duplicate entries for key {key[2:]}"
        keys.add(key)
    return ""
