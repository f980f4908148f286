"""Validators for the schema keywords of strings, numbers, enums and lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any

import msgspec

from pliant.embedded.schema.field_errors import (
    FieldErrorBuilder,
    FieldErrorType,
    ValidationResult,
    Validator,
    invalid_value,
    to_json_text,
)
from pliant.embedded.schema.formats import INTEGER_RANGES, STRING_FORMAT_CHECKS, compile_go_pattern

_MAX_EXACT_INTEGER = 2**53 - 1
"""Beyond it, API servers do not take floating-point numbers for integers."""


def chain_validators(validators: list[Validator]) -> list[Validator]:
    """Return one validator that stops at the first one with errors: later ones may rely on earlier ones."""
    if len(validators) <= 1:
        return validators
    first, *others = validators

    def validate(value: Any) -> ValidationResult:
        errors = first(value)
        if errors is not None:
            return errors
        for other in others:
            errors = other(value)
            if errors is not None:
                return errors
        return None

    return [validate]


def string_validators(schema: Mapping[str, Any]) -> list[Validator]:
    validators: list[Validator] = []
    min_length, max_length = schema.get("minLength"), schema.get("maxLength")
    if min_length is not None or max_length is not None:
        validators.append(_length_validator(min_length or 0, max_length))
    if "pattern" in schema:
        validators.append(_pattern_validator(schema["pattern"]))
    if (format_name := schema.get("format")) not in STRING_FORMAT_CHECKS:
        return validators
    return independent_validators([*chain_validators(validators), _format_validator(format_name)])


def number_validators(schema: Mapping[str, Any]) -> list[Validator]:
    validators: list[Validator] = []
    if schema.get("type") == "integer" and schema.get("format", "") in INTEGER_RANGES:
        lowest, highest = INTEGER_RANGES[schema["format"]]
        validators += [_minimum_validator(lowest), _maximum_validator(highest)]
    if (minimum := schema.get("minimum")) is not None:
        validators.append(_minimum_validator(minimum, exclusive=bool(schema.get("exclusiveMinimum"))))
    if (maximum := schema.get("maximum")) is not None:
        validators.append(_maximum_validator(maximum, exclusive=bool(schema.get("exclusiveMaximum"))))
    if "multipleOf" in schema:
        validators.append(_multiple_of_validator(schema["multipleOf"]))
    return validators


def list_validators(schema: Mapping[str, Any], item_validator: Validator | None) -> list[Validator]:
    """Return one validator: the number of items hides no errors of items, and these hide no equal items."""
    validators: list[Validator] = []
    unique: Validator | None = None
    min_items, max_items = schema.get("minItems"), schema.get("maxItems")
    if min_items is not None or max_items is not None:
        validators.append(_item_count_validator(min_items or 0, max_items))
    if item_validator is not None:
        validators.append(_each_item_validator(item_validator))
    if schema.get("uniqueItems") or schema.get("x-kubernetes-list-type") == "set":
        unique = _unique_items_validator(lambda item: item)
    elif schema.get("x-kubernetes-list-type") == "map":
        key_fields = tuple(schema.get("x-kubernetes-list-map-keys", ()))
        unique = _unique_keys_validator(key_fields)
    return independent_validators([*validators, *([unique] if unique is not None else [])])


def independent_validators(validators: list[Validator]) -> list[Validator]:
    """Return one validator with the errors of all."""
    if len(validators) <= 1:
        return validators

    def validate(value: Any) -> ValidationResult:
        errors: ValidationResult = None
        for check in validators:
            found = check(value)
            if found is not None:
                errors = found if errors is None else errors + found
        return errors

    return [validate]


def enum_validator(allowed: Sequence[Any]) -> Validator:
    # With the type, because True == 1 in Python but not in JSON.
    scalars = {(type(value), value) for value in allowed if not isinstance(value, dict | list)}
    compound = [value for value in allowed if isinstance(value, dict | list)]
    supported = "supported values: " + ", ".join(
        sorted(to_json_text(v if isinstance(v, str) else to_json_text(v)) for v in allowed)
    )

    def validate(value: Any) -> ValidationResult:
        is_valid = value in compound if isinstance(value, dict | list) else (type(value), value) in scalars
        if not is_valid and type(value) in (int, float):  # like Go, which converts numbers to the type of the other
            is_valid = (int, int(value)) in scalars or (float, float(value)) in scalars
        return None if is_valid else [FieldErrorBuilder(FieldErrorType.UNSUPPORTED, value, supported)]

    return validate


def _length_validator(min_length: int, max_length: int | None) -> Validator:
    def validate(value: Any) -> ValidationResult:
        if len(value) < min_length:
            return invalid_value(value, f"{{path}} in body should be at least {min_length} chars long")
        if max_length is not None and len(value) > max_length:
            return [FieldErrorBuilder(FieldErrorType.TOO_LONG, value, f"may not be more than {max_length} bytes")]
        return None

    return validate


def _pattern_validator(pattern: str) -> Validator:
    search = compile_go_pattern(pattern).search

    def validate(value: Any) -> ValidationResult:
        return None if search(value) else invalid_value(value, f"{{path}} in body should match '{pattern}'")

    return validate


def _format_validator(format_name: str) -> Validator:
    is_valid = STRING_FORMAT_CHECKS[format_name]

    def validate(value: Any) -> ValidationResult:
        if is_valid(value):
            return None
        detail = f"{{path}} in body must be of type {format_name}: {to_json_text(value)}"
        return [FieldErrorBuilder(FieldErrorType.TYPE, value, detail)]

    return validate


def _minimum_validator(minimum: float, *, exclusive: bool = False) -> Validator:
    is_within = gt if exclusive else ge
    detail = f"{{path}} in body should be greater than {'' if exclusive else 'or equal to '}{to_json_text(minimum)}"
    return _bound_validator(is_within, minimum, detail)


def _maximum_validator(maximum: float, *, exclusive: bool = False) -> Validator:
    is_within = lt if exclusive else le
    detail = f"{{path}} in body should be less than {'' if exclusive else 'or equal to '}{to_json_text(maximum)}"
    return _bound_validator(is_within, maximum, detail)


def _bound_validator(is_within: Callable[[Any, Any], bool], bound: float, detail: str) -> Validator:
    if type(bound) is int or bound.is_integer():
        return lambda value: None if is_within(value, bound) else invalid_value(value, detail)
    whole = int(bound)  # like Go, which compares integers with the integer part of a bound

    def validate(value: Any) -> ValidationResult:
        is_valid = is_within(value, whole if type(value) is int else bound)
        return None if is_valid else invalid_value(value, detail)

    return validate


def _multiple_of_validator(factor: float) -> Validator:
    detail = f"{{path}} in body should be a multiple of {to_json_text(factor)}"

    def validate(value: Any) -> ValidationResult:
        if type(value) is int:  # like Go, which divides integers by the integer part of the factor
            return None if int(factor) > 0 and value % int(factor) == 0 else invalid_value(value, detail)
        ratio = 1 / factor * value if 0 < factor < 1 else value / factor if factor > 0 else 0.5
        return None if ratio == int(ratio) and abs(ratio) <= _MAX_EXACT_INTEGER else invalid_value(value, detail)

    return validate


def _item_count_validator(min_items: int, max_items: int | None) -> Validator:
    def validate(value: Any) -> ValidationResult:
        if len(value) < min_items:
            return invalid_value(len(value), f"{{path}} in body should have at least {min_items} items")
        if max_items is not None and len(value) > max_items:
            return [FieldErrorBuilder(FieldErrorType.TOO_MANY, len(value), f"must have at most {max_items} items")]
        return None

    return validate


def _each_item_validator(item_validator: Validator) -> Validator:
    def validate(value: Any) -> ValidationResult:
        errors: ValidationResult = None
        for index, item in enumerate(value):
            item_errors = item_validator(item)
            if item_errors is not None:
                errors = (errors or []) + [error.prepend(index) for error in item_errors]
        return errors

    return validate


def _unique_keys_validator(key_fields: Sequence[str]) -> Validator:
    """Return a validator of the keys of a list of type map, whose items must be objects."""
    unique = _unique_items_validator(
        lambda item: {name: item[name] for name in key_fields if name in item} if item is not None else {}
    )

    def validate(value: Any) -> ValidationResult:
        for index, item in enumerate(value):
            if item is not None and not isinstance(item, dict):
                detail = "must be an object for an array of list-type map"
                return [FieldErrorBuilder(FieldErrorType.INVALID, item, detail).prepend(index)]
        return unique(value)

    return validate


def _unique_items_validator(key_of: Callable[[Any], Any]) -> Validator:
    def validate(value: Any) -> ValidationResult:
        if len(value) < 2:
            return None
        known_keys: set[Any] = set()
        reported: set[Any] = set()  # API servers report each value once
        errors: list[FieldErrorBuilder] = []
        for index, item in enumerate(value):
            key = key_of(item)
            hashable = key if type(key) is str else msgspec.json.encode(key, order="deterministic")
            if hashable in known_keys and hashable not in reported:
                reported.add(hashable)
                errors.append(FieldErrorBuilder(FieldErrorType.DUPLICATE, key).prepend(index))
            known_keys.add(hashable)
        return errors or None

    return validate
