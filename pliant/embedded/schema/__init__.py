"""Structural schemas, compiled once: defaults, pruning and validation of objects.

checks    every fault of a value          scalars, lists, formats   its parts
shape     defaults and pruning            structural                what a schema must be like
metadata  what every object carries       problems                  how faults are told
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec

from pliant.embedded.schema.checks import Check, compile_check
from pliant.embedded.schema.metadata import SUBDOMAIN, NameRule, as_resource, metadata_problems
from pliant.embedded.schema.problems import Problem, Reason, dotted, invalid
from pliant.embedded.schema.shape import Defaulter, Pruner, compile_defaulter, compile_pruner, copied
from pliant.embedded.schema.structural import require_structural

__all__ = ["Problem", "Reason", "Schema", "copied", "invalid"]


class Schema:
    """The schema of one kind; the walkers are built when the first object arrives."""

    def __init__(self, openapi: Mapping[str, Any], names: NameRule = SUBDOMAIN) -> None:
        self.openapi = openapi
        self._names = names

    @classmethod
    def compile(
        cls, openapi: Mapping[str, Any], *, where: str = "openAPIV3Schema", names: NameRule = SUBDOMAIN
    ) -> Schema:
        """A checked schema; InvalidSpec names the place, below `where`, that is not structural."""
        require_structural(openapi, where)
        return cls(openapi, names)

    def default(self, obj: dict[str, Any]) -> None:
        """Fill in what the schema says of missing fields, in place."""
        if self._defaulter is not None:
            self._defaulter(obj)

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Cut unknown fields away, in place, and say which; nulls of fields that cannot be null go silently."""
        cut = self._pruner(obj) if self._pruner is not None else None
        return [dotted(steps) for steps in cut] if cut else []

    def validate(self, obj: dict[str, Any]) -> list[Problem]:
        """Every problem of an object; an empty list for a sound one."""
        faults = self._check(obj) if self._check is not None else None
        if faults:
            return [fault.problem() for fault in faults]
        return metadata_problems(obj.get("metadata") or {}, self._names)

    @cached_property
    def _resource(self) -> dict[str, Any]:
        return as_resource(self.openapi)

    @cached_property
    def _defaulter(self) -> Defaulter | None:
        return compile_defaulter(self._resource)

    @cached_property
    def _pruner(self) -> Pruner | None:
        return compile_pruner(self._resource)

    @cached_property
    def _check(self) -> Check | None:
        return compile_check(self._resource)

    @cached_property
    def digest(self) -> str:
        """Names the content: equal schemas have equal digests, on every machine."""
        encoded = msgspec.json.encode(self.openapi, order="deterministic")
        return hashlib.sha256(encoded).hexdigest()
