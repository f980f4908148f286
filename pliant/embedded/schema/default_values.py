"""Finds defaults in the schema of a CRD that are no valid values of their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pliant.embedded.schema.defaults_and_pruning import compile_pruner, deep_copy
from pliant.embedded.schema.field_errors import FieldError, FieldErrorType
from pliant.embedded.schema.rules.pending import has_rules
from pliant.embedded.schema.validators import compile_validator

JsonSchema = Mapping[str, Any]


def find_default_errors(schema: JsonSchema, path: str) -> Iterator[FieldError]:
    """Yield the errors of all defaults of a structural schema; those within additionalProperties are not validated."""
    if schema.get("default") is not None:
        yield from _find_value_errors(schema, schema["default"], f"{path}.default")
    if isinstance(schema.get("items"), Mapping):
        yield from find_default_errors(schema["items"], f"{path}.items")
    for name, child in (schema.get("properties") or {}).items():
        yield from find_default_errors(child, f"{path}.properties[{name}]")


def _find_value_errors(schema: JsonSchema, value: Any, path: str) -> Iterator[FieldError]:
    prune = compile_pruner(schema, keep_nulls=True)
    if prune is not None and prune(deep_copy(value)):
        yield FieldError.of(path, FieldErrorType.INVALID, value, "must not have unknown fields")
    validate = compile_validator(schema)
    errors = [error.build() for error in (validate(value) if validate is not None else None) or ()]
    if not errors and has_rules(schema):
        # Importing CEL takes 12 ms; most schemas with defaults have no rules for them.
        from pliant.embedded.schema.rules.rule_validator import RuleValidator

        rules = RuleValidator(schema, is_resource=False)
        errors = rules.validate(value, value) or rules.validate(value)
    for error in errors:
        field = error.field.removeprefix("<nil>")
        yield FieldError(f"{path}.{field}" if field else path, error.reason, error.message)
