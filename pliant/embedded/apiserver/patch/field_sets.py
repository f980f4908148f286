"""Sets of field paths, and merging of objects by their schema, for server-side apply.

A path is a tuple of the path elements of `fieldsV1`: `f:NAME` for a field, `k:{…}` for the list item with these
keys, `v:…` for a value of a set. A field that the schema marks as atomic, or a list without a list type, is one field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import msgspec

from pliant.embedded.schema import deep_copy

FieldPath = tuple[str, ...]
MergeSchema = Mapping[str, Any]
"""An OpenAPI schema with the Kubernetes extensions for merging; empty if it is not known."""
_SELF_KEY = "."
_encode = msgspec.json.Encoder(order="sorted").encode


def iter_fields(
    value: Any, schema: MergeSchema, path: FieldPath = (), *, is_applied: bool = False
) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the path and the value of every field; an item of a list or map is also a field itself, with value None.

    Of an applied configuration, an empty list that is merged by items is no field, and neither is the whole value of a
    field that preserves unknown fields.
    """
    if isinstance(value, dict) and value and not _is_atomic(schema):
        declared = schema.get("properties") or {}
        for name, inner in value.items():
            is_item = name not in declared or (not is_applied and _is_untyped(declared[name]))
            if is_item and inner and isinstance(inner, dict | list):
                yield (*path, f"f:{name}"), None
            yield from iter_fields(inner, field_schema(schema, name), (*path, f"f:{name}"), is_applied=is_applied)
    elif isinstance(value, list) and value and (list_type := _list_type(schema, value)) != "atomic":
        for element, items in _group_items(value, schema).items():
            item_path = (*path, element)
            yield item_path, items if len(items) > 1 else None  # twins are one field
            if list_type == "map" and len(items) == 1:
                yield from iter_fields(items[0], schema.get("items") or {}, item_path, is_applied=is_applied)
    elif not (is_applied and value == [] and _list_type(schema, value) != "atomic"):
        yield path, value


def _is_untyped(schema: MergeSchema) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields")) and not schema.get("properties")


def merge_applied_configuration(live: Any, desired: Any, schema: MergeSchema) -> Any:
    """Return a copy of a live object with an applied configuration merged in."""
    if desired is None and isinstance(live, dict | list) and live and not _is_one_value(live, schema):
        return deep_copy(live)
    if isinstance(live, dict) and isinstance(desired, dict) and not _is_atomic(schema):
        result = deep_copy(live)
        for name, inner in desired.items():
            result[name] = merge_applied_configuration(live.get(name), inner, field_schema(schema, name))
        return result
    if isinstance(live, list) and isinstance(desired, list) and _list_type(schema, [*live, *desired]) != "atomic":
        return _merge_lists(live, desired, schema)
    return deep_copy(desired)


@dataclass(frozen=True, slots=True)
class FieldRemoval:
    """The fields to remove, and the fields that other managers own, which stay even if they are empty."""

    removed: Set[FieldPath]
    owned: Set[FieldPath]

    def apply(self, value: Any, schema: MergeSchema, path: FieldPath = ()) -> Any:
        """Return a value without the removed fields, and without unowned fields that became empty by that.

        What became empty is null, as in API servers, which validate custom objects with it.
        """
        if isinstance(value, dict) and value and not _is_atomic(schema):
            return dict(self._iter_remaining(value, schema, path)) or None
        if isinstance(value, list) and value and _list_type(schema, value) != "atomic":
            items = [(item, (*path, list_item_path_element(item, schema))) for item in value]
            return [self._apply_to_item(item, schema, each) for item, each in items if each not in self.removed] or None
        return value

    def _iter_remaining(self, value: dict[str, Any], schema: MergeSchema, path: FieldPath) -> Iterator[tuple[str, Any]]:
        for name, inner in value.items():
            field_path = (*path, f"f:{name}")
            if field_path not in self.removed:
                result = self.apply(inner, field_schema(schema, name), field_path)
                if result or not inner or result == inner or field_path in self.owned:
                    yield name, result

    def _apply_to_item(self, item: Any, schema: MergeSchema, path: FieldPath) -> Any:
        """Apply the removal to a list item, but keep its keys."""
        result = self.apply(item, schema.get("items") or {}, path)
        if not isinstance(item, dict):
            return result
        return {**{key: item[key] for key in _list_map_keys(schema) if key in item}, **(result or {})}


def field_schema(schema: MergeSchema, name: str) -> MergeSchema:
    found = (schema.get("properties") or {}).get(name) or schema.get("additionalProperties")
    return found if isinstance(found, Mapping) else {}


def is_declared_field(path: FieldPath, schema: MergeSchema) -> bool:
    """Return whether a path ends at a field that the schema declares, which keys of maps and list items are not."""
    is_declared = False
    for element in path:
        name = element.removeprefix("f:")
        is_declared = element.startswith("f:") and name in (schema.get("properties") or {})
        schema = field_schema(schema, name) if element.startswith("f:") else schema.get("items") or {}
    return is_declared


def list_item_path_element(item: Any, schema: MergeSchema) -> str:
    """Return the path element of an item in a list of type map or set."""
    if not isinstance(item, dict):
        return "v:" + _encode(item).decode()
    inner, keys = schema.get("items") or {}, {}
    for key in _list_map_keys(schema):
        # Kubernetes sets the default of protocols in code, not in the schema.
        default = field_schema(inner, key).get("default", "TCP" if key == "protocol" else None)
        if key in item or default is not None:
            keys[key] = item.get(key, default)
    return "k:" + _encode(keys).decode()


def encode_fields_v1(paths: Iterable[FieldPath]) -> dict[str, Any]:
    """Return paths in the format of `fieldsV1`."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node[_SELF_KEY] = {}
    return _collapse_leaf_markers(tree)


def decode_fields_v1(tree: Mapping[str, Any], path: FieldPath = ()) -> Iterator[FieldPath]:
    """Yield the paths in `fieldsV1`."""
    for element, inner in tree.items():
        if element == _SELF_KEY:
            yield path
        elif not inner:
            yield (*path, element)
        else:
            yield from decode_fields_v1(inner, (*path, element))


def format_field_path(path: FieldPath) -> str:
    """Return a path as error messages show it, for example `.spec.containers[name="main"].image`."""
    text = ""
    for element in path:
        kind, _, value = element.partition(":")
        if kind == "f":
            text += f".{value}"
        elif kind == "v":
            text += f"[={value}]"
        elif kind == "i":
            text += f"[{value}]"
        else:
            keys = msgspec.json.decode(value)
            text += "[" + ",".join(f"{key}={_encode(each).decode()}" for key, each in keys.items()) + "]"
    return text


def _collapse_leaf_markers(tree: dict[str, Any]) -> dict[str, Any]:
    """Replace `{".": {}}` by `{}` in fields without subfields."""
    return {each: {} if set(inner) == {_SELF_KEY} else _collapse_leaf_markers(inner) for each, inner in tree.items()}


def _group_items(items: list[Any], schema: MergeSchema) -> dict[str, list[Any]]:
    """Return the items of a list by their path element; API servers store lists in which several have the same one."""
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(list_item_path_element(item, schema), []).append(item)
    return groups


def _merge_lists(live: list[Any], desired: list[Any], schema: MergeSchema) -> list[Any]:
    old, new = _group_items(live, schema), _group_items(desired, schema)
    inner = schema.get("items") or {}
    result: list[Any] = []
    for element in _merge_order(list(old), list(new)):
        twins, applied = old.get(element, []), new.get(element, [])
        if len(twins) == 1 and len(applied) == 1:
            result.append(merge_applied_configuration(twins[0], applied[0], inner))
        else:
            result += deep_copy(applied or twins)
    return result


def _merge_order(old: list[str], new: list[str]) -> list[str]:
    """Merge two orders: new items are in their order, and the other old items stay between them."""
    order: list[str] = []
    remaining_old, remaining_new = list(old), list(new)
    while remaining_old or remaining_new:
        shared = next((each for each in remaining_new if each in old), None)
        if remaining_old and remaining_new and remaining_old[0] == remaining_new[0]:
            order.append(remaining_old.pop(0))
            remaining_new.pop(0)
        elif remaining_old and remaining_old[0] not in new:
            order.append(remaining_old.pop(0))
        elif remaining_old and (
            remaining_old[0] in order or (remaining_new and shared is not None and remaining_old[0] != shared)
        ):
            remaining_old.pop(0)
        else:
            order.append(remaining_new.pop(0))
    return order


def _is_atomic(schema: MergeSchema) -> bool:
    return schema.get("x-kubernetes-map-type") == "atomic"


def _is_one_value(value: dict[str, Any] | list[Any], schema: MergeSchema) -> bool:
    return _list_type(schema, value) == "atomic" if isinstance(value, list) else _is_atomic(schema)


def _list_map_keys(schema: MergeSchema) -> list[str]:
    return list(schema.get("x-kubernetes-list-map-keys") or ())


def _list_type(schema: MergeSchema, items: list[Any]) -> str:
    """Return the list type: map, set or atomic; a map list with items that are no objects is atomic."""
    list_type = str(schema.get("x-kubernetes-list-type") or "atomic")
    if list_type == "map" and not (_list_map_keys(schema) and all(isinstance(item, dict) for item in items)):
        return "atomic"
    return list_type
