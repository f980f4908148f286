"""Which fields an object has, as paths that can be compared, kept and printed.

A path is a tuple of steps: `f:NAME` into a field, `k:{…}` to the item of a list whose keys these are, `v:…` to a
value of a set. What is atomic in the schema is one field, however much is in it; so are lists that say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import msgspec

from pliant.embedded.schema import copied

Path = tuple[str, ...]
Shape = Mapping[str, Any]
"""An OpenAPI schema as far as it tells how things are merged; empty where nothing is known."""

_ITSELF = "."
_encode = msgspec.json.Encoder(order="sorted").encode


def leaves(value: Any, shape: Shape, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every field with its value; an item of a list or of a map is a field beside those in it."""
    if isinstance(value, dict) and value and not _is_atomic(shape):
        declared = shape.get("properties") or {}
        for name, inner in value.items():
            if name not in declared and inner and isinstance(inner, dict | list):
                yield (*at, f"f:{name}"), None
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


@dataclass(frozen=True, slots=True)
class Removal:
    """Fields that are to go, and those that somebody still owns, be they empty."""

    gone: Set[Path]
    owned: Set[Path]

    def applied(self, value: Any, shape: Shape, at: Path = ()) -> Any:
        """A value without what is to go, and without what is empty because of that and nobody's."""
        if isinstance(value, dict) and value and not _is_atomic(shape):
            return dict(self._kept(value, shape, at))
        if isinstance(value, list) and value and _style(shape, value) != "atomic":
            steps = [(item, (*at, step_to(item, shape))) for item in value]
            return [self._item(item, shape, place) for item, place in steps if place not in self.gone]
        return value

    def _kept(self, value: dict[str, Any], shape: Shape, at: Path) -> Iterator[tuple[str, Any]]:
        for name, inner in value.items():
            place = (*at, f"f:{name}")
            if place not in self.gone:
                left = self.applied(inner, member_shape(shape, name), place)
                if left or not inner or left == inner or place in self.owned:
                    yield name, left

    def _item(self, item: Any, shape: Shape, at: Path) -> Any:
        """An item of a list; what tells it apart stays."""
        left = self.applied(item, shape.get("items") or {}, at)
        if not isinstance(item, dict):
            return left
        return {**{key: item[key] for key in _keys(shape) if key in item}, **left}


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
    old = {step_to(item, shape): item for item in live}
    new = {step_to(item, shape): item for item in wanted}
    inner = shape.get("items") or {}
    return [
        merged(old[step], new[step], inner)
        if step in old and step in new
        else copied(new.get(step, old.get(step)))
        for step in _order(list(old), list(new))
    ]


def _order(old: list[str], new: list[str]) -> list[str]:
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
