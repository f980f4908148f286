"""Finds defaults in the schema of a CRD that are no valid values of their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pliant.embedded.schema.defaults_and_pruning import compile_pruner, deep_copy
from pliant.embedded.schema.field_errors import FieldError, FieldErrorType, NotIntegerBuilder
from pliant.embedded.schema.rules.pending import has_rules
from pliant.embedded.schema.validators import compile_validator

JsonSchema = Mapping[str, Any]


def find_default_errors(schema: JsonSchema, path: str, *, is_root: bool = True) -> Iterator[FieldError]:
    """Yield the errors of all defaults of a structural schema; those within additionalProperties are not validated."""
    if schema.get("default") is not None:
        is_resource = is_root or bool(schema.get("x-kubernetes-embedded-resource"))
        yield from _find_value_errors(schema, schema["default"], f"{path}.default", is_resource=is_resource)
    if isinstance(schema.get("items"), Mapping):
        yield from find_default_errors(schema["items"], f"{path}.items", is_root=False)
    for name, child in (schema.get("properties") or {}).items():
        yield from find_default_errors(child, f"{path}.properties[{name}]", is_root=False)


def _find_value_errors(schema: JsonSchema, value: Any, path: str, *, is_resource: bool) -> Iterator[FieldError]:
    prune = compile_pruner(schema, keep_nulls=True, prunes_wrong_types=True)
    if prune is not None and prune(deep_copy(value)):
        yield FieldError.of(path, FieldErrorType.INVALID, value, "must not have unknown fields")
    missing = [name for name in ("apiVersion", "kind") if is_resource and isinstance(value, dict) and name not in value]
    if missing:
        yield from (FieldError.of(f"{path}.{name}", FieldErrorType.REQUIRED, None, "") for name in missing)
        return
    validate = compile_validator(_without_types(schema))
    found = (validate(_with_floats(value)) if validate is not None else None) or ()
    errors = [error.build() for error in found]
    is_not_integer = any(isinstance(error, NotIntegerBuilder) for error in found)
    if is_not_integer or _has_fractional_limit(schema, value):  # API servers report it at the root, too
        errors.append(FieldError.of("", FieldErrorType.INVALID, "", "a number in it must be an integer"))
    if not errors and has_rules(schema):
        # Importing CEL takes 12 ms; most schemas with defaults have no rules for them.
        from pliant.embedded.schema.rules.rule_validator import RuleValidator

        rules = RuleValidator(schema, is_resource=False)
        errors = rules.validate(value, value) or rules.validate(value)
    for error in errors:
        field = error.field.removeprefix("<nil>")
        yield FieldError(f"{path}.{field}" if field else path, error.reason, error.message)


def _has_fractional_limit(schema: Any, value: Any) -> bool:
    """Return whether an integer in a value has a limit that is none: API servers refuse any value then."""
    if not isinstance(schema, Mapping):
        return False
    if isinstance(value, dict):
        declared, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        return any(_has_fractional_limit(declared.get(name, additional), member) for name, member in value.items())
    if isinstance(value, list):
        return any(_has_fractional_limit(schema.get("items"), each) for each in value)
    limits = [schema.get(keyword) for keyword in ("minimum", "maximum", "multipleOf")]
    is_integer = schema.get("type") == "integer" and type(value) in (int, float)
    return is_integer and any(isinstance(limit, float) and not limit.is_integer() for limit in limits)


def _with_floats(value: Any) -> Any:
    """Return a copy with floats, as API servers read the numbers of defaults: they truncate the limits of integers."""
    if isinstance(value, dict):
        return {name: _with_floats(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_with_floats(member) for member in value]
    return float(value) if type(value) is int and -(2**63) <= value < 2**63 else value


def _without_types(schema: JsonSchema) -> JsonSchema:
    """Return a schema in which integers or strings may have other types, too, as in defaults on Kubernetes."""
    result = {keyword: value for keyword, value in schema.items() if keyword != "x-kubernetes-int-or-string"}
    for keyword in ("items", "additionalProperties"):
        if isinstance(result.get(keyword), Mapping):
            result[keyword] = _without_types(result[keyword])
    if result.get("properties"):
        result["properties"] = {name: _without_types(child) for name, child in result["properties"].items()}
    return result
