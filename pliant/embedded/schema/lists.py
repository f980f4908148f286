"""Checks of lists: every item, their number, and that none is there twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pliant.embedded.schema.problems import Fault, Reason

Check = Callable[[Any], list[Fault] | None]


def list_checks(schema: Mapping[str, Any], item: Check | None) -> list[Check]:
    """What a schema asks of a list whose items `item` checks."""
    checks: list[Check] = []
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None or most is not None:
        checks.append(_count(least or 0, most))
    if item is not None:
        checks.append(_each(item))
    if schema.get("uniqueItems") or schema.get("x-kubernetes-list-type") == "set":
        checks.append(_distinct(lambda entry: entry))
    elif schema.get("x-kubernetes-list-type") == "map":
        checks.append(_distinct(_keys_of(schema)))
    return checks


def _count(least: int, most: int | None) -> Check:
    def check(value: Any) -> list[Fault] | None:
        if len(value) < least:
            return [Fault(Reason.INVALID, len(value), f"{{path}} in body should have at least {least} items")]
        if most is not None and len(value) > most:
            return [Fault(Reason.TOO_MANY, len(value), f"must have at most {most} items")]
        return None

    return check


def _each(item: Check) -> Check:
    def check(value: Any) -> list[Fault] | None:
        faults: list[Fault] | None = None
        for index, entry in enumerate(value):
            found = item(entry)
            if found is not None:
                faults = (faults or []) + [fault.at(index) for fault in found]
        return faults

    return check


def _keys_of(schema: Mapping[str, Any]) -> Callable[[Any], Any]:
    names = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    return lambda entry: {name: entry[name] for name in names if name in entry}


def _distinct(identity: Callable[[Any], Any]) -> Check:
    def check(value: Any) -> list[Fault] | None:
        if len(value) < 2:
            return None
        seen: set[Any] = set()
        faults: list[Fault] = []
        for index, entry in enumerate(value):
            key = identity(entry)
            mark = key if type(key) is str else msgspec.json.encode(key, order="deterministic")
            if mark in seen:
                faults.append(Fault(Reason.DUPLICATE, key).at(index))
            seen.add(mark)
        return faults or None

    return check
