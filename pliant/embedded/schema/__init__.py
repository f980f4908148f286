"""Structural schemas, compiled once: defaulting, pruning and validation of objects."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from pliant.embedded.schema.builtin_rules import without_list_keys_and_numbers
from pliant.embedded.schema.crd_schemas import find_shape_errors
from pliant.embedded.schema.defaults_and_pruning import Defaulter, Pruner, compile_defaulter, compile_pruner, deep_copy
from pliant.embedded.schema.embedded_resources import Path, find_embedded_paths, without_value_keywords
from pliant.embedded.schema.field_errors import (
    FieldError,
    FieldErrorType,
    NotIntegerBuilder,
    Validator,
    format_reversed_path,
    invalid_error,
)
from pliant.embedded.schema.metadata import DNS_SUBDOMAIN_RULE, NameRule, validate_metadata, with_object_metadata
from pliant.embedded.schema.rules.pending import has_rules, has_rules_for_new_objects
from pliant.embedded.schema.validators import compile_validator
from pliant.errors import InvalidSpec

if TYPE_CHECKING:
    from pliant.embedded.schema.rules.rule_validator import RuleValidator

__all__ = ["FieldError", "FieldErrorType", "Schema", "deep_copy", "invalid_error"]


def _is_of_metadata(error: FieldError) -> bool:
    return error.field.startswith("metadata")


class Schema:
    """The schema of one kind; its functions are compiled when the first object arrives."""

    def __init__(
        self,
        openapi: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
        name_rule: NameRule = DNS_SUBDOMAIN_RULE,
        *,
        is_builtin: bool = False,
    ) -> None:
        """Take the schema, or a function that loads it when it is first needed."""
        self._source = openapi
        self._name_rule = name_rule
        self._is_builtin = is_builtin

    @cached_property
    def openapi(self) -> Mapping[str, Any]:
        return self._source() if callable(self._source) else self._source

    @classmethod
    def compile(
        cls,
        openapi: Mapping[str, Any],
        *,
        field_path: str = "openAPIV3Schema",
        name_rule: NameRule = DNS_SUBDOMAIN_RULE,
    ) -> Schema:
        """Return a schema; raise InvalidSpec with the path, below `field_path`, that is not structural."""
        for error in find_shape_errors(openapi, field_path):
            raise InvalidSpec(error.field, error.message)
        return cls(openapi, name_rule)

    def default(self, obj: dict[str, Any]) -> None:
        """Set missing fields to the defaults of the schema, in place."""
        if self._defaulter is not None:
            self._defaulter(obj)

    def prune(self, obj: dict[str, Any], *, keep_nulls: bool = False, is_strict: bool = False) -> list[str]:
        """Remove unknown fields in place and return their paths; also remove nulls of fields that are not nullable.

        Only a strict request sees the fields of values that are no objects, which is another error anyway.
        """
        pruner = self._pruner_of_unknown if keep_nulls else self._strict_pruner if is_strict else self._pruner
        pruned = pruner(obj) if pruner is not None else None
        return [format_reversed_path(segments) for segments in pruned] if pruned else []

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        errors = self._validator(obj) if self._validator is not None else None
        built = [error.build() for error in errors or ()]
        if any(isinstance(each, NotIntegerBuilder) and each.segments[-1:] == ["status"] for each in errors or ()):
            # API servers validate a status on its own, and report this error also at its root.
            built.append(FieldError.of("status", FieldErrorType.INVALID, "", "a number in it must be an integer"))
        if not isinstance(obj.get("metadata"), dict) or any(_is_of_metadata(error) for error in built):
            return built
        return built + validate_metadata(obj.get("metadata") or {}, self._name_rule)

    def validate_structure(self, obj: dict[str, Any]) -> list[FieldError]:
        """Return the errors of embedded resources and of the keys of lists, which do not depend on types of values."""
        errors = self._structure_validator(obj) if self._structure_validator is not None else None
        return [built for error in errors or () if (built := error.build()).reason != FieldErrorType.TYPE.cause]

    def validate_rules(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        """Return the errors of the CEL rules of a CRD for an object that is valid otherwise."""
        if not (self.has_rules if old is not None else self._has_rules_for_new_objects):
            return []
        if old is not None and self._defaulter is not None:
            old = deep_copy(old)
            self._defaulter(old)
        return self._rule_validator.validate(obj, old)

    @cached_property
    def has_rules(self) -> bool:
        return has_rules(self.openapi)

    @cached_property
    def _has_rules_for_new_objects(self) -> bool:
        return has_rules_for_new_objects(self.openapi)

    @cached_property
    def _rule_validator(self) -> RuleValidator:
        # Importing CEL takes 12 ms; most clusters never write an object of a kind with rules.
        from pliant.embedded.schema.rules.rule_validator import RuleValidator

        return RuleValidator(self.openapi)

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
    def _strict_pruner(self) -> Pruner | None:
        return compile_pruner(self._full_openapi, prunes_wrong_types=not self._is_builtin)

    @cached_property
    def _pruner_of_unknown(self) -> Pruner | None:
        return compile_pruner(self._full_openapi, keep_nulls=True)

    @cached_property
    def _validator(self) -> Validator | None:
        if self._is_builtin:
            return compile_validator(without_list_keys_and_numbers(self._full_openapi))
        properties = self._full_openapi["properties"]
        metadata = without_list_keys_and_numbers(properties["metadata"])
        return compile_validator({**self._full_openapi, "properties": {**properties, "metadata": metadata}})

    @cached_property
    def _structure_validator(self) -> Validator | None:
        return compile_validator(without_value_keywords(self.openapi))

    @cached_property
    def embedded_paths(self) -> tuple[Path, ...]:
        """The paths of objects of other kinds."""
        return () if self._is_builtin else tuple(find_embedded_paths(self.openapi))

    @cached_property
    def digest(self) -> str:
        """Return a hash of the content, equal for equal schemas."""
        encoded = msgspec.json.encode(self.openapi, order="deterministic")
        return hashlib.sha256(encoded).hexdigest()
