"""Which fields an object has, as paths that can be compared, kept and printed.

A path is a tuple of steps: `f:NAME` into a field, `k:{…}` to the item of a list whose keys these are, `v:…` to a
value of a set. What is atomic in the schema is one field, however much is in it; so are lists that say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pliant.embedded.schema import copied

Path = tuple[str, ...]
Shape = Mapping[str, Any]
"""An OpenAPI schema as far as it tells how things are merged; empty where nothing is known."""

_ITSELF = "."
_encode = msgspec.json.Encoder(order="sorted").encode


def leaves(value: Any, shape: Shape, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every field with its value; an item of a list is a field beside those in it."""
    if isinstance(value, dict) and value and not _is_atomic(shape):
        for name, inner in value.items():
            yield from leaves(inner, member_shape(shape, name), (*at, f"f:{name}"))
    elif isinstance(value, list) and value and (style := _style(shape, value)) != "atomic":
        for item in value:
            place = (*at, step_to(item, shape))
            yield place, None
            if style == "map":
                yield from leaves(item, shape.get("items") or {}, place)
    else:
        yield at, value


def merged(live: Any, wanted: Any, shape: Shape) -> Any:
    """What is there with what is wanted on top of it; shares nothing with either."""
    if isinstance(live, dict) and isinstance(wanted, dict) and not _is_atomic(shape):
        result = copied(live)
        for name, inner in wanted.items():
            result[name] = merged(live.get(name), inner, member_shape(shape, name))
        return result
    if isinstance(live, list) and isinstance(wanted, list) and _style(shape, [*live, *wanted]) != "atomic":
        return _merged_lists(live, wanted, shape)
    return copied(wanted)


def without(value: Any, shape: Shape, gone: set[Path], at: Path = ()) -> Any:
    """A value without the fields that are to go, and without what is empty because of that."""
    if isinstance(value, dict) and value and not _is_atomic(shape):
        kept: dict[str, Any] = {}
        for name, inner in value.items():
            place = (*at, f"f:{name}")
            if place in gone:
                continue
            left = without(inner, member_shape(shape, name), gone, place)
            if left or not inner or left == inner:
                kept[name] = left
        return kept
    if isinstance(value, list) and value and _style(shape, value) != "atomic":
        steps = [(item, (*at, step_to(item, shape))) for item in value]
        return [_stripped(item, shape, gone, place) for item, place in steps if place not in gone]
    return value


def member_shape(shape: Shape, name: str) -> Shape:
    """The shape of a field of an object."""
    known = (shape.get("properties") or {}).get(name) or shape.get("additionalProperties")
    return known if isinstance(known, Mapping) else {}


def step_to(item: Any, shape: Shape) -> str:
    """The step to an item of a list that is merged item by item."""
    if not isinstance(item, dict):
        return "v:" + _encode(item).decode()
    inner = shape.get("items") or {}
    keys = {key: item.get(key, member_shape(inner, key).get("default")) for key in _keys(shape)}
    if "protocol" in keys and keys["protocol"] is None:
        keys["protocol"] = "TCP"  # a default that Kubernetes keeps in code
    return "k:" + _encode({key: value for key, value in keys.items() if value is not None}).decode()


def encoded(paths: Iterable[Path]) -> dict[str, Any]:
    """Paths in the form `fieldsV1`."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node[_ITSELF] = {}
    return _folded(tree)


def decoded(tree: Mapping[str, Any], at: Path = ()) -> Iterator[Path]:
    """The paths in `fieldsV1`."""
    for step, inner in tree.items():
        if step == _ITSELF:
            yield at
        elif not inner:
            yield (*at, step)
        else:
            yield from decoded(inner, (*at, step))


def printed(path: Path) -> str:
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


def _folded(tree: dict[str, Any]) -> dict[str, Any]:
    """Leave out the mark of a field that has nothing in it: its being there says enough."""
    return {step: {} if set(inner) == {_ITSELF} else _folded(inner) for step, inner in tree.items()}


def _merged_lists(live: list[Any], wanted: list[Any], shape: Shape) -> list[Any]:
    result = {step_to(item, shape): copied(item) for item in live}
    for item in wanted:
        step = step_to(item, shape)
        result[step] = merged(result[step], item, shape.get("items") or {}) if step in result else copied(item)
    return list(result.values())


def _stripped(item: Any, shape: Shape, gone: set[Path], at: Path) -> Any:
    """An item of a list without the fields that are to go; what tells it apart stays."""
    left = without(item, shape.get("items") or {}, gone, at)
    if not isinstance(item, dict):
        return left
    return {**{key: item[key] for key in _keys(shape) if key in item}, **left}


def _is_atomic(shape: Shape) -> bool:
    return shape.get("x-kubernetes-map-type") == "atomic"


def _keys(shape: Shape) -> list[str]:
    return list(shape.get("x-kubernetes-list-map-keys") or ())


def _style(shape: Shape, items: list[Any]) -> str:
    """How a list is merged: map, set or atomic; items that do not fit make it atomic."""
    style = str(shape.get("x-kubernetes-list-type") or "atomic")
    if style == "map" and not (_keys(shape) and all(isinstance(item, dict) for item in items)):
        return "atomic"
    return style
