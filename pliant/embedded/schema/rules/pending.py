"""Tells whether a schema has rules, and whether a write must evaluate one, without importing CEL."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

_TEXT_LITERAL: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_OLD_SELF: Final = re.compile(r"(?<![.\w])oldSelf\b(?!\s*,)")


_verified_schemas: set[bytes] = set()


def register_verified_schema(schema: Any) -> None:
    """Declare that the rules of a schema are valid, so that its CRD is created without checking them."""
    if has_rules(schema):
        _verified_schemas.add(_digest(schema))


def must_check_rules(schema: Any) -> bool:
    """Return whether a schema has rules that nobody has verified."""
    return has_rules(schema) and not (_verified_schemas and _digest(schema) in _verified_schemas)


def _digest(schema: Any) -> bytes:
    return hashlib.sha256(msgspec.json.encode(schema, order="deterministic")).digest()


def has_rules(schema: Any) -> bool:
    """Return whether a schema, or a part of it, has rules."""
    return next(_find_rules(schema), None) is not None


def has_rules_for_new_objects(schema: Any) -> bool:
    """Return whether a schema has rules that do not need an old object, which a new object does not have."""
    return any(rule.get("optionalOldSelf") or not is_transition(str(rule.get("rule"))) for rule in _find_rules(schema))


def is_transition(rule: str) -> bool:
    """Return whether a rule certainly refers to the variable oldSelf, so that a new object does not need it.

    Macros may have a variable of that name.
    """
    return _OLD_SELF.search(_TEXT_LITERAL.sub("''", rule)) is not None and "oldSelf," not in rule


def _find_rules(schema: Any) -> Iterator[Mapping[str, Any]]:
    if type(schema) is not dict:
        return
    yield from schema.get("x-kubernetes-validations") or ()
    for keyword in ("items", "additionalProperties"):
        yield from _find_rules(schema.get(keyword))
    for child in (schema.get("properties") or {}).values():
        yield from _find_rules(child)
