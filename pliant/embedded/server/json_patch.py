"""RFC 6902: a list of operations, applied in order or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from pliant.embedded.schema import copied
from pliant.errors import BadRequest, Invalid

_INDEX: Final = re.compile(r"0|[1-9]\d*")


def json_patched(target: Any, operations: Any) -> Any:
    """The target after all operations; BadRequest for malformed ones, Invalid for one that does not apply."""
    if not isinstance(operations, list):
        raise _malformed("a JSON patch must be a list of operations")
    document = {"": copied(target)}
    for operation in operations:
        if not isinstance(operation, dict):
            raise _malformed("every operation must be an object")
        name = operation.get("op")
        if name not in _OPERATIONS:
            raise _malformed(f"unknown operation {name!r}: it must be one of {', '.join(_OPERATIONS)}")
        # The document hangs below an empty name, so that the root can be replaced like any member.
        _OPERATIONS[name](document, operation)
    return document.get("")


def is_same(one: Any, other: Any) -> bool:
    """JSON equality: true is not 1, and the order of members does not matter."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)


def _add(document: Any, operation: dict[str, Any]) -> None:
    _insert(document, _pointer(operation, "path"), copied(_value(operation)))


def _remove(document: Any, operation: dict[str, Any]) -> None:
    path = _pointer(operation, "path")
    parent, last = _parent(document, path)
    _get(parent, last, path)
    del parent[_place(parent, last, path)]


def _replace(document: Any, operation: dict[str, Any]) -> None:
    path = _pointer(operation, "path")
    parent, last = _parent(document, path)
    _get(parent, last, path)
    parent[_place(parent, last, path)] = copied(_value(operation))


def _move(document: Any, operation: dict[str, Any]) -> None:
    source, path = _pointer(operation, "from"), _pointer(operation, "path")
    if path[: len(source)] == source and path != source:
        raise _unfit(f"cannot move {_spelled(source)} into itself")
    parent, last = _parent(document, source)
    value = _get(parent, last, source)
    del parent[_place(parent, last, source)]
    _insert(document, path, value)


def _copy(document: Any, operation: dict[str, Any]) -> None:
    source = _pointer(operation, "from")
    parent, last = _parent(document, source)
    _insert(document, _pointer(operation, "path"), copied(_get(parent, last, source)))


def _test(document: Any, operation: dict[str, Any]) -> None:
    path = _pointer(operation, "path")
    parent, last = _parent(document, path)
    if not is_same(_get(parent, last, path), _value(operation)):
        raise _unfit(f"testing value {_spelled(path)} failed: test failed")


_OPERATIONS: Final[dict[Any, Callable[[Any, dict[str, Any]], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _pointer(operation: dict[str, Any], member: str) -> list[str]:
    text = operation.get(member)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _malformed(f"{operation['op']}: {member!r} must be a JSON pointer such as /spec/replicas")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise _malformed(f"{operation['op']}: 'value' is missing")
    return operation["value"]


def _parent(document: Any, path: list[str]) -> tuple[Any, str]:
    node = document
    for step in path[:-1]:
        node = _get(node, step, path)
    return node, path[-1]


def _get(node: Any, step: str, path: list[str]) -> Any:
    if isinstance(node, dict) and step in node:
        return node[step]
    if isinstance(node, list) and _INDEX.fullmatch(step) and int(step) < len(node):
        return node[int(step)]
    raise _unfit(f"the object has nothing at {_spelled(path)}")


def _place(parent: Any, last: str, path: list[str]) -> Any:
    return int(last) if isinstance(parent, list) else last


def _insert(document: Any, path: list[str], value: Any) -> None:
    parent, last = _parent(document, path)
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list) and last == "-":
        parent.append(value)
    elif isinstance(parent, list) and _INDEX.fullmatch(last) and int(last) <= len(parent):
        parent.insert(int(last), value)
    else:
        raise _unfit(f"the object has no place for {_spelled(path)}")


def _spelled(path: list[str]) -> str:
    return "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)


def _malformed(says: str) -> BadRequest:
    return BadRequest(400, "BadRequest", says)


def _unfit(says: str) -> Invalid:
    return Invalid(422, "Invalid", f"the server rejected our request due to an error in our request: {says}")
