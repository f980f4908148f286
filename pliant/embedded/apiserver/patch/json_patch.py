"""RFC 6902: a list of operations, applied in order or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from pliant.embedded.schema import deep_copy
from pliant.errors import BadRequest, Invalid

_ARRAY_INDEX: Final = re.compile(r"0|[1-9]\d*")


def apply_json_patch(target: Any, operations: Any) -> Any:
    """The target after all operations; BadRequest for malformed ones, Invalid for one that does not apply."""
    if not isinstance(operations, list):
        raise _malformed_patch_error("a JSON patch must be a list of operations")
    document = {"": deep_copy(target)}
    for operation in operations:
        if not isinstance(operation, dict):
            raise _malformed_patch_error("every operation must be an object")
        name = operation.get("op")
        if name not in _OPERATIONS:
            raise _malformed_patch_error(f"unknown operation {name!r}: it must be one of {', '.join(_OPERATIONS)}")
        # The document hangs below an empty name, so that the root can be replaced like any member.
        _OPERATIONS[name](document, operation)
    return document.get("")


def is_json_equal(one: Any, other: Any) -> bool:
    """JSON equality: true is not 1, and the order of members does not matter."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_json_equal(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_json_equal, one, other))
    return bool(one == other)


def _apply_add(document: Any, operation: dict[str, Any]) -> None:
    _insert_value(document, _parse_pointer(operation, "path"), deep_copy(_operation_value(operation)))


def _apply_remove(document: Any, operation: dict[str, Any]) -> None:
    path = _parse_pointer(operation, "path")
    parent, last = _find_parent(document, path)
    _get_child(parent, last, path)
    del parent[_child_key(parent, last, path)]


def _apply_replace(document: Any, operation: dict[str, Any]) -> None:
    path = _parse_pointer(operation, "path")
    parent, last = _find_parent(document, path)
    _get_child(parent, last, path)
    parent[_child_key(parent, last, path)] = deep_copy(_operation_value(operation))


def _apply_move(document: Any, operation: dict[str, Any]) -> None:
    source, path = _parse_pointer(operation, "from"), _parse_pointer(operation, "path")
    if path[: len(source)] == source and path != source:
        raise _inapplicable_patch_error(f"cannot move {_format_pointer(source)} into itself")
    parent, last = _find_parent(document, source)
    value = _get_child(parent, last, source)
    del parent[_child_key(parent, last, source)]
    _insert_value(document, path, value)


def _apply_copy(document: Any, operation: dict[str, Any]) -> None:
    source = _parse_pointer(operation, "from")
    parent, last = _find_parent(document, source)
    _insert_value(document, _parse_pointer(operation, "path"), deep_copy(_get_child(parent, last, source)))


def _apply_test(document: Any, operation: dict[str, Any]) -> None:
    path = _parse_pointer(operation, "path")
    parent, last = _find_parent(document, path)
    if not is_json_equal(_get_child(parent, last, path), _operation_value(operation)):
        raise _inapplicable_patch_error(f"testing value {_format_pointer(path)} failed: test failed")


_OPERATIONS: Final[dict[Any, Callable[[Any, dict[str, Any]], None]]] = {
    "add": _apply_add,
    "remove": _apply_remove,
    "replace": _apply_replace,
    "move": _apply_move,
    "copy": _apply_copy,
    "test": _apply_test,
}


def _parse_pointer(operation: dict[str, Any], member: str) -> list[str]:
    text = operation.get(member)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _malformed_patch_error(f"{operation['op']}: {member!r} must be a JSON pointer such as /spec/replicas")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _operation_value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise _malformed_patch_error(f"{operation['op']}: 'value' is missing")
    return operation["value"]


def _find_parent(document: Any, path: list[str]) -> tuple[Any, str]:
    node = document
    for step in path[:-1]:
        node = _get_child(node, step, path)
    return node, path[-1]


def _get_child(node: Any, step: str, path: list[str]) -> Any:
    if isinstance(node, dict) and step in node:
        return node[step]
    if isinstance(node, list) and _ARRAY_INDEX.fullmatch(step) and int(step) < len(node):
        return node[int(step)]
    raise _inapplicable_patch_error(f"the object has nothing at {_format_pointer(path)}")


def _child_key(parent: Any, last: str, path: list[str]) -> Any:
    return int(last) if isinstance(parent, list) else last


def _insert_value(document: Any, path: list[str], value: Any) -> None:
    parent, last = _find_parent(document, path)
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list) and last == "-":
        parent.append(value)
    elif isinstance(parent, list) and _ARRAY_INDEX.fullmatch(last) and int(last) <= len(parent):
        parent.insert(int(last), value)
    else:
        raise _inapplicable_patch_error(f"the object has no place for {_format_pointer(path)}")


def _format_pointer(path: list[str]) -> str:
    return "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)


def _malformed_patch_error(message: str) -> BadRequest:
    return BadRequest(400, "BadRequest", message)


def _inapplicable_patch_error(message: str) -> Invalid:
    return Invalid(422, "Invalid", f"the server rejected our request due to an error in our request: {message}")
