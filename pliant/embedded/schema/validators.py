"""Compiles a structural schema to one function that finds all errors of a value.

A validator returns None for a valid value. Errors collect their path on the way up, so that valid values, the
common case, cost neither strings nor lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pliant.embedded.schema.embedded_resources import validate_embedded_resource
from pliant.embedded.schema.field_errors import (
    FieldErrorBuilder,
    FieldErrorType,
    NotIntegerBuilder,
    ValidationResult,
    Validator,
    invalid_value,
)
from pliant.embedded.schema.formats import STRING_FORMAT_CHECKS
from pliant.embedded.schema.keyword_validators import (
    chain_validators,
    enum_validator,
    independent_validators,
    list_validators,
    number_validators,
    string_validators,
)
from pliant.embedded.schema.metadata import with_object_metadata

_JSON_TYPE_NAMES: Final[dict[type, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    type(None): "null",
}


def compile_validator(schema: Mapping[str, Any]) -> Validator | None:
    """Return the validator of a schema; None if every value is valid."""
    if schema.get("x-kubernetes-embedded-resource"):
        schema = with_object_metadata(schema, require_type=True)
    typed = _type_validator(schema)
    if "enum" in schema:
        typed = _both_validators(typed, enum_validator(schema["enum"]))
    check = next(iter(independent_validators([*([typed] if typed else []), *_combinator_validators(schema)])), None)
    if check is None or not schema.get("nullable"):
        return check
    non_null = check
    return lambda value: None if value is None else non_null(value)


def _chain_validators(validators: list[Validator]) -> Validator | None:
    return next(iter(chain_validators(validators)), None)


def _both_validators(first: Validator | None, second: Validator) -> Validator:
    """Return a validator with the errors of both: a value of a wrong type is not in an enumeration either."""
    if first is None:
        return second
    return lambda value: [*(first(value) or ()), *(second(value) or ())] or None


def _type_error(value: Any, expected: str) -> list[FieldErrorBuilder]:
    found = _JSON_TYPE_NAMES.get(type(value), "unknown")
    create = NotIntegerBuilder if type(value) is float and expected == "integer" else FieldErrorBuilder
    return [create(FieldErrorType.TYPE, found, f'{{path}} in body must be of type {expected}: "{found}"')]


def _type_validator(schema: Mapping[str, Any]) -> Validator | None:
    if schema.get("x-kubernetes-int-or-string"):
        return _int_or_string_validator(schema)
    name = schema.get("type")
    if name is None:
        return _untyped_validator(schema)
    typed = _single_type_validator(schema, name)
    # The keywords of other types apply to values of these types, which are wrong anyway.
    others = _untyped_validator(schema, without=("integer", "number") if name in ("integer", "number") else (name,))
    return typed if others is None else _both_validators(typed, others)


def _single_type_validator(schema: Mapping[str, Any], name: str) -> Validator:
    if name not in _VALIDATORS_BY_TYPE:  # an error of the schema, which hides none of its default
        return lambda value: _type_error(value, name)
    inner = _chain_validators(_VALIDATORS_BY_TYPE[name](schema))
    if name in ("integer", "number"):
        # The range of the format is no error of its own for a number that is no integer in Go.
        return _number_validator(name, inner, _chain_validators(number_validators({**schema, "format": ""})))
    if name == "string" and schema.get("format") in STRING_FORMAT_CHECKS:
        return _formatted_string_validator(inner)
    return _exact_type_validator(_PYTHON_TYPES[name], name, inner)


def _exact_type_validator(expected: type, name: str, inner: Validator | None) -> Validator:
    if inner is None and expected is str:
        return _validate_string
    if inner is None:
        return lambda value: None if type(value) is expected else _type_error(value, name)
    return lambda value: inner(value) if type(value) is expected else _type_error(value, name)


def _formatted_string_validator(inner: Validator | None) -> Validator:
    """Return a validator that also accepts lists, as API servers do where a string has a format."""

    def validate(value: Any) -> ValidationResult:
        if type(value) is str:
            return inner(value) if inner is not None else None
        return None if type(value) is list else _type_error(value, "string")

    return validate


def _validate_string(value: Any) -> ValidationResult:
    return None if type(value) is str else _type_error(value, "string")


def _is_int64(value: int) -> bool:
    return -(2**63) <= value < 2**63


def _number_validator(type_name: str, inner: Validator | None, bounds: Validator | None) -> Validator:
    allows_fractions = type_name == "number"

    def validate(value: Any) -> ValidationResult:
        if type(value) is int and not allows_fractions and not _is_int64(value):
            number = float(value)
            return _type_error(number, type_name) + ((bounds(number) if bounds is not None else None) or [])
        if type(value) is int or (type(value) is float and (allows_fractions or value.is_integer())):
            return inner(value) if inner is not None else None
        if type(value) is float:
            return _type_error(value, type_name) + ((inner(value) if inner is not None else None) or [])
        return _type_error(value, type_name)

    return validate


def _int_or_string_validator(schema: Mapping[str, Any]) -> Validator:
    of_number, of_string = _chain_validators(number_validators(schema)), _chain_validators(string_validators(schema))

    def validate(value: Any) -> ValidationResult:
        if type(value) is str:
            return of_string(value) if of_string is not None else None
        if (type(value) is int and _is_int64(value)) or (type(value) is float and value.is_integer()):
            return of_number(value) if of_number is not None else None
        return _type_error(value, "integer,string")

    return validate


def _untyped_validator(schema: Mapping[str, Any], *, without: tuple[str, ...] = ()) -> Validator | None:
    """Return a validator that applies each keyword only to values of the type that the keyword is for."""
    by_type: dict[type, Validator] = {}
    for name, create in _VALIDATORS_BY_TYPE.items():
        inner = _chain_validators(create(schema)) if name not in without else None
        if inner is not None:
            for value_type in (int, float) if name in ("integer", "number") else (_PYTHON_TYPES[name],):
                by_type[value_type] = inner
    if not by_type:
        return None

    def validate(value: Any) -> ValidationResult:
        inner = by_type.get(type(value))
        return inner(value) if inner is not None else None

    return validate


def _object_validators(schema: Mapping[str, Any]) -> list[Validator]:
    validators: list[Validator] = []
    properties = {name: compile_validator(child) for name, child in schema.get("properties", {}).items()}
    extra = schema.get("additionalProperties")
    additional = compile_validator(extra) if isinstance(extra, Mapping) else None
    required = tuple(schema.get("required", ()))
    if required or additional is not None or any(properties.values()):
        validators.append(_properties_validator(properties, additional, required))
    min_count, max_count = schema.get("minProperties"), schema.get("maxProperties")
    if min_count is not None or max_count is not None:
        validators.append(_property_count_validator(min_count or 0, max_count))
    if schema.get("x-kubernetes-embedded-resource"):
        validators.append(validate_embedded_resource)
    return independent_validators(validators)


def _properties_validator(
    properties: Mapping[str, Validator | None], additional: Validator | None, required: tuple[str, ...]
) -> Validator:
    # Most properties are strings without further keywords: a set lookup saves a call for each.
    plain_strings = frozenset(name for name, inner in properties.items() if inner is _validate_string)

    def validate(value: Any) -> ValidationResult:
        errors: ValidationResult = None
        for name, member in value.items():
            if type(member) is str and name in plain_strings:
                continue
            inner = properties.get(name, additional)
            if inner is not None:
                member_errors = inner(member)
                if member_errors is not None:
                    errors = (errors or []) + [error.prepend(name) for error in member_errors]
        for name in required:
            if name not in value:
                errors = [*(errors or ()), FieldErrorBuilder(FieldErrorType.REQUIRED).prepend(name)]
        return errors

    return validate


def _property_count_validator(min_count: int, max_count: int | None) -> Validator:
    def validate(value: Any) -> ValidationResult:
        if len(value) < min_count:
            return invalid_value(value, f"{{path}} in body should have at least {min_count} properties")
        if max_count is not None and len(value) > max_count:
            return [FieldErrorBuilder(FieldErrorType.TOO_MANY, len(value), f"must have at most {max_count} items")]
        return None

    return validate


def _array_validators(schema: Mapping[str, Any]) -> list[Validator]:
    items = schema.get("items")
    return list_validators(schema, compile_validator(items) if isinstance(items, Mapping) else None)


_VALIDATORS_BY_TYPE: Final[dict[str, Callable[[Mapping[str, Any]], list[Validator]]]] = {
    "object": _object_validators,
    "array": _array_validators,
    "string": string_validators,
    "integer": number_validators,
    "number": number_validators,
    "boolean": lambda schema: [],
}
_PYTHON_TYPES: Final[dict[str, type]] = {"object": dict, "array": list, "string": str, "boolean": bool}


def _combinator_validators(schema: Mapping[str, Any]) -> Iterable[Validator]:
    if "allOf" in schema:
        yield _all_of_validator([check for part in schema["allOf"] if (check := compile_validator(part))])
    if "anyOf" in schema and not schema.get("x-kubernetes-int-or-string"):
        yield _any_of_validator(schema["anyOf"], [compile_validator(part) for part in schema["anyOf"]])
    if "oneOf" in schema:
        yield _one_of_validator(schema["oneOf"], [compile_validator(part) for part in schema["oneOf"]])
    if "not" in schema:
        yield _not_validator(compile_validator(schema["not"]))


def _all_of_validator(validators: list[Validator]) -> Validator:
    def validate(value: Any) -> ValidationResult:
        errors = [error for part in validators for error in part(value) or ()]
        return [*invalid_value("", '"{path}" must validate all the schemas (allOf)'), *errors] if errors else None

    return validate


def _any_of_validator(schemas: list[Mapping[str, Any]], validators: list[Validator | None]) -> Validator:
    def validate(value: Any) -> ValidationResult:
        alternatives: list[list[FieldErrorBuilder]] = []
        for part in validators:
            errors = part(value) if part is not None else None
            if errors is None:
                return None
            alternatives.append(errors)
        summary = invalid_value("", '"{path}" must validate at least one schema (anyOf)')
        return [*summary, *_closest_errors(schemas, alternatives, value)]

    return validate


def _one_of_validator(schemas: list[Mapping[str, Any]], validators: list[Validator | None]) -> Validator:
    def validate(value: Any) -> ValidationResult:
        results = [part(value) if part is not None else None for part in validators]
        valid_count = sum(result is None for result in results)
        if valid_count == 1:
            return None
        detail = '"{path}" must validate one and only one schema (oneOf). Found '
        if valid_count:
            return invalid_value("", f"{detail}{valid_count} valid alternatives")
        errors = _closest_errors(schemas, [each or [] for each in results], value)
        return [*invalid_value("", f"{detail}none valid"), *errors]

    return validate


def _not_validator(inner: Validator | None) -> Validator:
    def validate(value: Any) -> ValidationResult:
        if inner is not None and inner(value) is not None:
            return None
        return invalid_value("", '"{path}" must not validate the schema (not)')

    return validate


def _closest_errors(
    schemas: list[Mapping[str, Any]], alternatives: list[list[FieldErrorBuilder]], value: Any
) -> list[FieldErrorBuilder]:
    """Return the errors of the alternative that describes most of a value: most likely the one that was intended."""
    counts = [_count_described(schema, value) for schema in schemas]
    return alternatives[counts.index(max(counts))]


def _count_described(schema: Mapping[str, Any], value: Any) -> int:
    """Return how many values, here and below, a schema describes."""
    properties, items = schema.get("properties") or {}, schema.get("items")
    if isinstance(value, dict):
        return 1 + sum(_count_described(child, value[name]) for name, child in properties.items() if name in value)
    if isinstance(value, list) and isinstance(items, Mapping):
        return 1 + sum(_count_described(items, item) for item in value)
    return 1
