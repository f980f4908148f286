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

from pliant.embedded.schema.defaults_and_pruning import Defaulter, Pruner, compile_defaulter, compile_pruner, deep_copy
from pliant.embedded.schema.field_errors import FieldError, FieldErrorType, format_path, invalid_error
from pliant.embedded.schema.metadata import DNS_SUBDOMAIN, NameRule, validate_metadata, with_object_metadata
from pliant.embedded.schema.structural import require_structural
from pliant.embedded.schema.validators import Validator, compile_validator

__all__ = ["FieldError", "FieldErrorType", "Schema", "deep_copy", "invalid_error"]


class Schema:
    """The schema of one kind; the walkers are built when the first object arrives."""

    def __init__(self, openapi: Mapping[str, Any], name_rule: NameRule = DNS_SUBDOMAIN) -> None:
        self.openapi = openapi
        self._name_rule = name_rule

    @classmethod
    def compile(
        cls, openapi: Mapping[str, Any], *, field_path: str = "openAPIV3Schema", name_rule: NameRule = DNS_SUBDOMAIN
    ) -> Schema:
        """A checked schema; InvalidSpec names the place, below `where`, that is not structural."""
        require_structural(openapi, field_path)
        return cls(openapi, name_rule)

    def default(self, obj: dict[str, Any]) -> None:
        """Fill in what the schema says of missing fields, in place."""
        if self._defaulter is not None:
            self._defaulter(obj)

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Cut unknown fields away, in place, and say which; nulls of fields that cannot be null go silently."""
        cut = self._pruner(obj) if self._pruner is not None else None
        return [format_path(steps) for steps in cut] if cut else []

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        """Every problem of an object; an empty list for a sound one."""
        faults = self._validator(obj) if self._validator is not None else None
        if faults:
            return [fault.build() for fault in faults]
        return validate_metadata(obj.get("metadata") or {}, self._name_rule)

    @cached_property
    def _full_openapi(self) -> dict[str, Any]:
        return with_object_metadata(self.openapi)

    @cached_property
    def _defaulter(self) -> Defaulter | None:
        return compile_defaulter(self._full_openapi)

    @cached_property
    def _pruner(self) -> Pruner | None:
        return compile_pruner(self._full_openapi)

    @cached_property
    def _validator(self) -> Validator | None:
        return compile_validator(self._full_openapi)

    @cached_property
    def digest(self) -> str:
        """Names the content: equal schemas have equal digests, on every machine."""
        encoded = msgspec.json.encode(self.openapi, order="deterministic")
        return hashlib.sha256(encoded).hexdigest()
