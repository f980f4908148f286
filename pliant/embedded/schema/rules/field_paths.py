"""The paths of fields to which rules attribute their errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_SEGMENT: Final = re.compile(r"\.([^.\[\]']+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def normalize_field_path(path: str, schema: Mapping[str, Any]) -> str | None:
    """Return a path such as `.spec['a.b']` as errors show it; None if the schema has no such field."""
    found = _follow(path, schema)
    return found[0] or None if found is not None else None


def find_field_schema(path: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema of a field; None if the schema has no such field."""
    found = _follow(path, schema)
    return found[1] if found is not None else None


def _follow(path: str, schema: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    position, normalized = 0, ""
    while position < len(path):
        match = _SEGMENT.match(path, position)
        if match is None:
            return None
        name = match[1] if match[1] is not None else re.sub(r"\\(.)", lambda escape: _ESCAPES[escape[1]], match[2])
        properties, additional = schema.get("properties"), schema.get("additionalProperties")
        if properties is not None:
            if name not in properties:
                return None
            schema = properties[name]
            normalized += f".{name}" if normalized else name
        elif isinstance(additional, Mapping):
            schema = additional
            normalized += f"[{name}]"
        else:
            return None
        position = match.end()
    return normalized, schema
