"""Which fields an object has, as paths that can be compared, kept and printed.

A path is a tuple of steps: `f:NAME` into a field, `k:{…}` to the item of a list whose keys these are, `v:…` to a
value of a set. What is atomic in the schema is one field, however much is in it; so are lists that say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import msgspec

from pliant.embedded.schema import deep_copy

FieldPath = tuple[str, ...]
MergeSchema = Mapping[str, Any]
"""An OpenAPI schema as far as it tells how things are merged; empty where nothing is known."""

_SELF_KEY = "."
_encode = msgspec.json.Encoder(order="sorted").encode


def iter_fields(value: Any, schema: MergeSchema, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Every field with its value; an item of a list or of a map is a field beside those in it."""
    if isinstance(value, dict) and value and not _is_atomic(schema):
        declared = schema.get("properties") or {}
        for name, inner in value.items():
            if name not in declared and inner and isinstance(inner, dict | list):
                yield (*path, f"f:{name}"), None
            yield from iter_fields(inner, field_schema(schema, name), (*path, f"f:{name}"))
    elif isinstance(value, list) and value and (style := _list_type(schema, value)) != "atomic":
        for item in value:
            place = (*path, list_item_path_element(item, schema))
            yield place, None
            if style == "map":
                yield from iter_fields(item, schema.get("items") or {}, place)
    else:
        yield path, value


def merge_configuration(live: Any, desired: Any, schema: MergeSchema) -> Any:
    """What is there with what is wanted on top of it; shares nothing with either."""
    if isinstance(live, dict) and isinstance(desired, dict) and not _is_atomic(schema):
        result = deep_copy(live)
        for name, inner in desired.items():
            result[name] = merge_configuration(live.get(name), inner, field_schema(schema, name))
        return result
    if isinstance(live, list) and isinstance(desired, list) and _list_type(schema, [*live, *desired]) != "atomic":
        return _merge_lists(live, desired, schema)
    return deep_copy(desired)


@dataclass(frozen=True, slots=True)
class FieldRemoval:
    """Fields that are to go, and those that somebody still owns, be they empty."""

    removed: Set[FieldPath]
    owned: Set[FieldPath]

    def apply(self, value: Any, schema: MergeSchema, path: FieldPath = ()) -> Any:
        """A value without what is to go, and without what is empty because of that and nobody's."""
        if isinstance(value, dict) and value and not _is_atomic(schema):
            return dict(self._iter_remaining(value, schema, path))
        if isinstance(value, list) and value and _list_type(schema, value) != "atomic":
            steps = [(item, (*path, list_item_path_element(item, schema))) for item in value]
            return [self._apply_to_item(item, schema, place) for item, place in steps if place not in self.removed]
        return value

    def _iter_remaining(self, value: dict[str, Any], schema: MergeSchema, path: FieldPath) -> Iterator[tuple[str, Any]]:
        for name, inner in value.items():
            place = (*path, f"f:{name}")
            if place not in self.removed:
                left = self.apply(inner, field_schema(schema, name), place)
                if left or not inner or left == inner or place in self.owned:
                    yield name, left

    def _apply_to_item(self, item: Any, schema: MergeSchema, path: FieldPath) -> Any:
        """An item of a list; what tells it apart stays."""
        left = self.apply(item, schema.get("items") or {}, path)
        if not isinstance(item, dict):
            return left
        return {**{key: item[key] for key in _list_map_keys(schema) if key in item}, **left}


def field_schema(schema: MergeSchema, name: str) -> MergeSchema:
    """The shape of a field of an object."""
    known = (schema.get("properties") or {}).get(name) or schema.get("additionalProperties")
    return known if isinstance(known, Mapping) else {}


def list_item_path_element(item: Any, schema: MergeSchema) -> str:
    """The step to an item of a list that is merged item by item."""
    if not isinstance(item, dict):
        return "v:" + _encode(item).decode()
    inner = schema.get("items") or {}
    keys = {key: item.get(key, field_schema(inner, key).get("default")) for key in _list_map_keys(schema)}
    if "protocol" in keys and keys["protocol"] is None:
        keys["protocol"] = "TCP"  # a default that Kubernetes keeps in code
    return "k:" + _encode({key: value for key, value in keys.items() if value is not None}).decode()


def encode_fields_v1(paths: Iterable[FieldPath]) -> dict[str, Any]:
    """Paths in the form `fieldsV1`."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node[_SELF_KEY] = {}
    return _collapse_leaf_markers(tree)


def decode_fields_v1(tree: Mapping[str, Any], path: FieldPath = ()) -> Iterator[FieldPath]:
    """The paths in `fieldsV1`."""
    for step, inner in tree.items():
        if step == _SELF_KEY:
            yield path
        elif not inner:
            yield (*path, step)
        else:
            yield from decode_fields_v1(inner, (*path, step))


def format_path(path: FieldPath) -> str:
    """A path as people read it: `.spec.containers[name="main"].image`."""
    said = ""
    for step in path:
        kind, _, rest = step.partition(":")
        if kind == "f":
            said += f".{rest}"
        elif kind == "v":
            said += f"[={rest}]"
        else:
            keys = msgspec.json.decode(rest)
            said += "[" + ",".join(f"{key}={_encode(value).decode()}" for key, value in keys.items()) + "]"
    return said


def _collapse_leaf_markers(tree: dict[str, Any]) -> dict[str, Any]:
    """Leave out the mark of a field that has nothing in it: its being there says enough."""
    return {step: {} if set(inner) == {_SELF_KEY} else _collapse_leaf_markers(inner) for step, inner in tree.items()}


def _merge_lists(live: list[Any], desired: list[Any], schema: MergeSchema) -> list[Any]:
    old = {list_item_path_element(item, schema): item for item in live}
    new = {list_item_path_element(item, schema): item for item in desired}
    inner = schema.get("items") or {}
    return [
        merge_configuration(old[step], new[step], inner)
        if step in old and step in new
        else deep_copy(new.get(step, old.get(step)))
        for step in _merge_order(list(old), list(new))
    ]


def _merge_order(old: list[str], new: list[str]) -> list[str]:
    """All items once: those that are wanted in the order wanted, the others where they were between them."""
    order: list[str] = []
    left, waiting = list(old), list(new)
    while left or waiting:
        shared = next((step for step in waiting if step in old), None)
        if left and waiting and left[0] == waiting[0]:
            order.append(left.pop(0))
            waiting.pop(0)
        elif left and left[0] not in new:
            order.append(left.pop(0))
        elif left and (left[0] in order or (waiting and shared is not None and left[0] != shared)):
            left.pop(0)
        else:
            order.append(waiting.pop(0))
    return order


def _is_atomic(schema: MergeSchema) -> bool:
    return schema.get("x-kubernetes-map-type") == "atomic"


def _list_map_keys(schema: MergeSchema) -> list[str]:
    return list(schema.get("x-kubernetes-list-map-keys") or ())


def _list_type(schema: MergeSchema, items: list[Any]) -> str:
    """How a list is merged: map, set or atomic; items that do not fit make it atomic."""
    style = str(schema.get("x-kubernetes-list-type") or "atomic")
    if style == "map" and not (_list_map_keys(schema) and all(isinstance(item, dict) for item in items)):
        return "atomic"
    return style
