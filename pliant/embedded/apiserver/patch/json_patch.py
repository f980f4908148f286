"""JSON patch (RFC 6902)."""

from __future__ import annotations

import re
from typing import Any, Final

from pliant.embedded.schema import deep_copy
from pliant.errors import BadRequest, Invalid

_ARRAY_INDEX: Final = re.compile(r"0|[1-9]\d*")
_OPERATIONS: Final = ("add", "remove", "replace", "move", "copy", "test")


def apply_json_patch(target: Any, operations: Any) -> Any:
    """Return a patched copy; raise `BadRequest` for a malformed patch, and `Invalid` for one that does not apply."""
    _require_operations(operations)
    document = {"": deep_copy(target)}  # an empty key above the root, so that operations can replace the root
    for operation in operations:
        name = operation.get("op")
        if name not in _OPERATIONS:
            raise _inapplicable_patch_error(f"unknown operation {name!r}: it must be one of {', '.join(_OPERATIONS)}")
        try:
            _apply_operation(document, operation)
        except LookupError as missing:
            detail = f"{name} operation does not apply: doc is missing path: {missing.args[0]}: missing value"
            raise _inapplicable_patch_error(detail) from None
    return document.get("")


def _require_operations(operations: Any) -> None:
    if not isinstance(operations, list):
        raise _malformed_patch_error("a JSON patch must be a list of operations")
    for operation in operations:
        if operation is None:
            raise _inapplicable_patch_error("every operation must be an object")
        if not isinstance(operation, dict):
            raise _malformed_patch_error("every operation must be an object")
        for field in ("op", "path", "from"):
            if not isinstance(operation.get(field) or "", str):
                raise _malformed_patch_error(f"{field!r} of an operation must be a string")


def is_json_equal(one: Any, other: Any) -> bool:
    """Compare JSON values; unlike in Python, true is not equal to 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_json_equal(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_json_equal, one, other))
    return bool(one == other)


def _apply_operation(document: Any, operation: dict[str, Any]) -> None:
    path = _parse_pointer(operation, "path")
    value = operation.get("value")
    if len(path) == 1 and operation["op"] not in ("replace", "test"):
        raise LookupError("")  # API servers only replace the whole object
    match operation["op"]:
        case "add":
            _insert_value(document, path, deep_copy(value))
        case "remove":
            parent, key = _find_value(document, path)
            del parent[key]
        case "replace":
            if len(path) == 1 and not isinstance(value, dict | list):
                raise _inapplicable_patch_error("the object must be replaced by an object")
            _replace_value(document, path, deep_copy(value))
        case "move":
            parent, key = _find_value(document, _parse_source(operation))
            _insert_value(document, path, parent.pop(key))
        case "copy":
            _insert_value(document, path, deep_copy(_copied_value(document, _parse_source(operation))))
        case "test":
            if not is_json_equal(_copied_value(document, path), value):
                raise _inapplicable_patch_error(f"testing value {_format_pointer(path)} failed: test failed")


def _parse_pointer(operation: dict[str, Any], field: str) -> list[str]:
    text = operation.get(field)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _inapplicable_patch_error(f"{operation['op']}: {field!r} must be a JSON pointer such as /spec/replicas")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _parse_source(operation: dict[str, Any]) -> list[str]:
    source = _parse_pointer(operation, "from")
    if len(source) == 1:
        raise LookupError("")
    return source


def _find_value(document: Any, path: list[str]) -> tuple[Any, Any]:
    """Return the object or list that contains a value, and its key; raise `LookupError` for a missing path."""
    parent, key = document, _child_key(document, path[0], path)
    for segment in path[1:]:
        parent = parent[key]
        key = _child_key(parent, segment, path)
    return parent, key


def _replace_value(document: Any, path: list[str], value: Any) -> None:
    """Replace a value, or add an absent member of an object, as API servers do."""
    if len(path) > 1:
        parent, key = _find_value(document, path[:-1])
        if isinstance(parent[key], dict):
            parent[key][path[-1]] = value
            return
    parent, key = _find_value(document, path)
    parent[key] = value


def _copied_value(document: Any, path: list[str]) -> Any:
    """Return the value to copy or to test, null for an absent member of an object, as API servers do."""
    if len(path) == 1:
        return document[path[0]]
    parent, key = _find_value(document, path[:-1])
    container = parent[key]
    if isinstance(container, dict):
        return container.get(path[-1])
    return container[_child_key(container, path[-1], path)]


def _child_key(node: Any, segment: str, path: list[str]) -> Any:
    if isinstance(node, dict) and segment in node:
        return segment
    if isinstance(node, list) and _ARRAY_INDEX.fullmatch(segment) and int(segment) < len(node):
        return int(segment)
    raise LookupError(_format_pointer(path))


def _insert_value(document: Any, path: list[str], value: Any) -> None:
    parent, last = document, path[-1]
    if len(path) > 1:
        grandparent, key = _find_value(document, path[:-1])
        parent = grandparent[key]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list) and last == "-":
        parent.append(value)
    elif isinstance(parent, list) and _ARRAY_INDEX.fullmatch(last) and int(last) <= len(parent):
        parent.insert(int(last), value)
    else:
        raise LookupError(_format_pointer(path))


def _format_pointer(path: list[str]) -> str:
    return "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)


def _malformed_patch_error(message: str) -> BadRequest:
    return BadRequest(400, "BadRequest", message)


def _inapplicable_patch_error(message: str) -> Invalid:
    return Invalid(422, "Invalid", f"the server rejected our request due to an error in our request: {message}")
