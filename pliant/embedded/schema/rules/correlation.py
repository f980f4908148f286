"""Finds the old value of a new one, so that rules can compare them and unchanged values stay valid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JsonSchema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Correlation:
    """A new value and the old one with which it is compared."""

    new: Any
    old: Any

    @property
    def is_unchanged(self) -> bool:
        return bool(self.new == self.old)

    def member(self, name: str) -> Correlation | None:
        if isinstance(self.old, dict) and name in self.old:
            return Correlation(self.new[name], self.old[name])
        return None

    def element(self, schema: JsonSchema, index: int) -> Correlation | None:
        """Return an element of a list that has keys, or that is a set."""
        if not isinstance(self.old, list):
            return None
        element = self.new[index]
        match schema.get("x-kubernetes-list-type"):
            case "map":
                found = find_by_keys(self.old, schema.get("x-kubernetes-list-map-keys", ()), element)
                return Correlation(element, found) if found is not None else None
            case "set":
                return Correlation(element, element) if element in self.old else None
        return None


def find_by_keys(elements: list[Any], keys: Any, wanted: Any) -> Any:
    """Return the element of a list with the same keys; None if there is none."""
    if not isinstance(wanted, dict):
        return None
    for element in elements:
        if isinstance(element, dict) and all(element.get(key) == wanted.get(key) for key in keys):
            return element
    return None


@dataclass(frozen=True, slots=True)
class Ratchet:
    """Tells whether an error is an old one: its value, or the nearest comparable value around it, did not change."""

    current: Correlation | None = None
    parent: Correlation | None = None

    @property
    def is_unchanged(self) -> bool:
        nearest = self.current if self.current is not None else self.parent
        return nearest is not None and nearest.is_unchanged

    def member(self, name: str) -> Ratchet:
        if self.current is None:
            return self
        if self.parent is None and name in ("apiVersion", "kind"):
            return Ratchet()
        return Ratchet(self.current.member(name), self.current)

    def element(self, schema: JsonSchema, index: int) -> Ratchet:
        return self if self.current is None else Ratchet(self.current.element(schema, index), self.current)
