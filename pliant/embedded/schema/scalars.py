"""Checks of strings and numbers: lengths, patterns, formats, ranges, closed sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pliant.embedded.schema.formats import INTEGER_RANGES, STRING_FORMATS, compiled_pattern
from pliant.embedded.schema.problems import Fault, Reason, shown

Check = Callable[[Any], list[Fault] | None]


def string_checks(schema: Mapping[str, Any]) -> list[Check]:
    """What a schema asks of a string."""
    checks: list[Check] = []
    least, most = schema.get("minLength"), schema.get("maxLength")
    if least is not None or most is not None:
        checks.append(_length(least or 0, most))
    if "pattern" in schema:
        checks.append(_pattern(schema["pattern"]))
    if (form := schema.get("format")) in STRING_FORMATS:
        checks.append(_format(form))
    return checks


def number_checks(schema: Mapping[str, Any]) -> list[Check]:
    """What a schema asks of a number."""
    checks: list[Check] = []
    least, most = schema.get("minimum"), schema.get("maximum")
    if (bounds := INTEGER_RANGES.get(schema.get("format", ""))) is not None and schema.get("type") == "integer":
        checks.append(_within(*bounds))
    if least is not None:
        checks.append(_above(least, exclusive=bool(schema.get("exclusiveMinimum"))))
    if most is not None:
        checks.append(_below(most, exclusive=bool(schema.get("exclusiveMaximum"))))
    if "multipleOf" in schema:
        checks.append(_multiple(schema["multipleOf"]))
    return checks


def enum_check(allowed: Sequence[Any]) -> Check:
    """One of a closed set; JSON knows no equality between true and 1."""
    known = {(type(value), value) for value in allowed if not isinstance(value, dict | list)}
    compound = [value for value in allowed if isinstance(value, dict | list)]
    supported = "supported values: " + ", ".join(
        sorted(shown(v if isinstance(v, str) else shown(v)) for v in allowed)
    )

    def check(value: Any) -> list[Fault] | None:
        sound = value in compound if isinstance(value, dict | list) else (type(value), value) in known
        return None if sound else [Fault(Reason.UNSUPPORTED, value, supported)]

    return check


def _length(least: int, most: int | None) -> Check:
    def check(value: Any) -> list[Fault] | None:
        if len(value) < least:
            return [Fault(Reason.INVALID, value, f"{{path}} in body should be at least {least} chars long")]
        if most is not None and len(value) > most:
            return [Fault(Reason.TOO_LONG, value, f"may not be more than {most} bytes")]
        return None

    return check


def _pattern(pattern: str) -> Check:
    search = compiled_pattern(pattern).search

    def check(value: Any) -> list[Fault] | None:
        if search(value) is not None:
            return None
        return [Fault(Reason.INVALID, value, f"{{path}} in body should match '{pattern}'")]

    return check


def _format(form: str) -> Check:
    is_sound = STRING_FORMATS[form]

    def check(value: Any) -> list[Fault] | None:
        if is_sound(value):
            return None
        return [Fault(Reason.TYPE, value, f"{{path}} in body must be of type {form}: {shown(value)}")]

    return check


def _within(least: int, most: int) -> Check:
    def check(value: Any) -> list[Fault] | None:
        if least <= value <= most:
            return None
        says = f"greater than or equal to {least}" if value < least else f"less than or equal to {most}"
        return [Fault(Reason.INVALID, value, f"{{path}} in body should be {says}")]

    return check


def _above(least: float, *, exclusive: bool) -> Check:
    says = f"{{path}} in body should be greater than {'' if exclusive else 'or equal to '}{shown(least)}"

    def check(value: Any) -> list[Fault] | None:
        sound = value > least if exclusive else value >= least
        return None if sound else [Fault(Reason.INVALID, value, says)]

    return check


def _below(most: float, *, exclusive: bool) -> Check:
    says = f"{{path}} in body should be less than {'' if exclusive else 'or equal to '}{shown(most)}"

    def check(value: Any) -> list[Fault] | None:
        sound = value < most if exclusive else value <= most
        return None if sound else [Fault(Reason.INVALID, value, says)]

    return check


def _multiple(factor: float) -> Check:
    def check(value: Any) -> list[Fault] | None:
        ratio = value / factor
        if ratio == int(ratio):
            return None
        return [Fault(Reason.INVALID, value, f"{{path}} in body should be a multiple of {shown(factor)}")]

    return check
