"""Checks of lists: every item, their number, and that none is there twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pliant.embedded.schema.field_errors import FieldErrorBuilder, FieldErrorType

Validator = Callable[[Any], list[FieldErrorBuilder] | None]


def list_validators(schema: Mapping[str, Any], item_validator: Validator | None) -> list[Validator]:
    """What a schema asks of a list whose items `item` checks."""
    checks: list[Validator] = []
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None or most is not None:
        checks.append(_item_count_validator(least or 0, most))
    if item_validator is not None:
        checks.append(_each_item_validator(item_validator))
    if schema.get("uniqueItems") or schema.get("x-kubernetes-list-type") == "set":
        checks.append(_unique_items_validator(lambda entry: entry))
    elif schema.get("x-kubernetes-list-type") == "map":
        checks.append(_unique_items_validator(_map_key_getter(schema)))
    return checks


def _item_count_validator(min_items: int, max_items: int | None) -> Validator:
    def check(value: Any) -> list[FieldErrorBuilder] | None:
        if len(value) < min_items:
            return [
                FieldErrorBuilder(
                    FieldErrorType.INVALID, len(value), f"{{path}} in body should have at least {min_items} items"
                )
            ]
        if max_items is not None and len(value) > max_items:
            return [FieldErrorBuilder(FieldErrorType.TOO_MANY, len(value), f"must have at most {max_items} items")]
        return None

    return check


def _each_item_validator(item_validator: Validator) -> Validator:
    def check(value: Any) -> list[FieldErrorBuilder] | None:
        faults: list[FieldErrorBuilder] | None = None
        for index, entry in enumerate(value):
            found = item_validator(entry)
            if found is not None:
                faults = (faults or []) + [fault.prepend(index) for fault in found]
        return faults

    return check


def _map_key_getter(schema: Mapping[str, Any]) -> Callable[[Any], Any]:
    names = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    return lambda entry: {name: entry[name] for name in names if name in entry}


def _unique_items_validator(key_of: Callable[[Any], Any]) -> Validator:
    def check(value: Any) -> list[FieldErrorBuilder] | None:
        if len(value) < 2:
            return None
        seen: set[Any] = set()
        faults: list[FieldErrorBuilder] = []
        for index, entry in enumerate(value):
            key = key_of(entry)
            mark = key if type(key) is str else msgspec.json.encode(key, order="deterministic")
            if mark in seen:
                faults.append(FieldErrorBuilder(FieldErrorType.DUPLICATE, key).prepend(index))
            seen.add(mark)
        return faults or None

    return check
