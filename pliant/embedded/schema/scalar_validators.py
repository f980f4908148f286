"""Checks of strings and numbers: lengths, patterns, formats, ranges, closed sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pliant.embedded.schema.field_errors import FieldErrorBuilder, FieldErrorType, to_json_text
from pliant.embedded.schema.formats import INTEGER_RANGES, STRING_FORMATS, compile_go_pattern

Validator = Callable[[Any], list[FieldErrorBuilder] | None]


def string_validators(schema: Mapping[str, Any]) -> list[Validator]:
    """What a schema asks of a string."""
    checks: list[Validator] = []
    least, most = schema.get("minLength"), schema.get("maxLength")
    if least is not None or most is not None:
        checks.append(_length_validator(least or 0, most))
    if "pattern" in schema:
        checks.append(_pattern_validator(schema["pattern"]))
    if (form := schema.get("format")) in STRING_FORMATS:
        checks.append(_format_validator(form))
    return checks


def number_validators(schema: Mapping[str, Any]) -> list[Validator]:
    """What a schema asks of a number."""
    checks: list[Validator] = []
    least, most = schema.get("minimum"), schema.get("maximum")
    if (bounds := INTEGER_RANGES.get(schema.get("format", ""))) is not None and schema.get("type") == "integer":
        checks.append(_range_validator(*bounds))
    if least is not None:
        checks.append(_minimum_validator(least, exclusive=bool(schema.get("exclusiveMinimum"))))
    if most is not None:
        checks.append(_maximum_validator(most, exclusive=bool(schema.get("exclusiveMaximum"))))
    if "multipleOf" in schema:
        checks.append(_multiple_of_validator(schema["multipleOf"]))
    return checks


def enum_validator(allowed: Sequence[Any]) -> Validator:
    """One of a closed set; JSON knows no equality between true and 1."""
    known = {(type(value), value) for value in allowed if not isinstance(value, dict | list)}
    compound = [value for value in allowed if isinstance(value, dict | list)]
    supported = "supported values: " + ", ".join(
        sorted(to_json_text(v if isinstance(v, str) else to_json_text(v)) for v in allowed)
    )

    def check(value: Any) -> list[FieldErrorBuilder] | None:
        sound = value in compound if isinstance(value, dict | list) else (type(value), value) in known
        return None if sound else [FieldErrorBuilder(FieldErrorType.UNSUPPORTED, value, supported)]

    return check


def _length_validator(min_length: int, max_length: int | None) -> Validator:
    def check(value: Any) -> list[FieldErrorBuilder] | None:
        if len(value) < min_length:
            return [
                FieldErrorBuilder(
                    FieldErrorType.INVALID, value, f"{{path}} in body should be at least {min_length} chars long"
                )
            ]
        if max_length is not None and len(value) > max_length:
            return [FieldErrorBuilder(FieldErrorType.TOO_LONG, value, f"may not be more than {max_length} bytes")]
        return None

    return check


def _pattern_validator(pattern: str) -> Validator:
    search = compile_go_pattern(pattern).search

    def check(value: Any) -> list[FieldErrorBuilder] | None:
        if search(value) is not None:
            return None
        return [FieldErrorBuilder(FieldErrorType.INVALID, value, f"{{path}} in body should match '{pattern}'")]

    return check


def _format_validator(format_name: str) -> Validator:
    is_sound = STRING_FORMATS[format_name]

    def check(value: Any) -> list[FieldErrorBuilder] | None:
        if is_sound(value):
            return None
        return [
            FieldErrorBuilder(
                FieldErrorType.TYPE, value, f"{{path}} in body must be of type {format_name}: {to_json_text(value)}"
            )
        ]

    return check


def _range_validator(minimum: int, maximum: int) -> Validator:
    def check(value: Any) -> list[FieldErrorBuilder] | None:
        if minimum <= value <= maximum:
            return None
        says = f"greater than or equal to {minimum}" if value < minimum else f"less than or equal to {maximum}"
        return [FieldErrorBuilder(FieldErrorType.INVALID, value, f"{{path}} in body should be {says}")]

    return check


def _minimum_validator(minimum: float, *, exclusive: bool) -> Validator:
    says = f"{{path}} in body should be greater than {'' if exclusive else 'or equal to '}{to_json_text(minimum)}"

    def check(value: Any) -> list[FieldErrorBuilder] | None:
        sound = value > minimum if exclusive else value >= minimum
        return None if sound else [FieldErrorBuilder(FieldErrorType.INVALID, value, says)]

    return check


def _maximum_validator(maximum: float, *, exclusive: bool) -> Validator:
    says = f"{{path}} in body should be less than {'' if exclusive else 'or equal to '}{to_json_text(maximum)}"

    def check(value: Any) -> list[FieldErrorBuilder] | None:
        sound = value < maximum if exclusive else value <= maximum
        return None if sound else [FieldErrorBuilder(FieldErrorType.INVALID, value, says)]

    return check


def _multiple_of_validator(factor: float) -> Validator:
    def check(value: Any) -> list[FieldErrorBuilder] | None:
        ratio = value / factor
        if ratio == int(ratio):
            return None
        return [
            FieldErrorBuilder(
                FieldErrorType.INVALID, value, f"{{path}} in body should be a multiple of {to_json_text(factor)}"
            )
        ]

    return check
