"""Turns a structural schema into one function that finds every fault of a value.

A check answers None for a sound value. Faults gather their path while they travel outward, so sound values, the
common case, cost neither strings nor lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pliant.embedded.schema.field_errors import FieldErrorBuilder, FieldErrorType
from pliant.embedded.schema.list_validators import list_validators
from pliant.embedded.schema.metadata import with_object_metadata
from pliant.embedded.schema.scalar_validators import enum_validator, number_validators, string_validators

ValidationResult = list[FieldErrorBuilder] | None
Validator = Callable[[Any], ValidationResult]

JSON_TYPE_NAMES: Final[dict[type, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    type(None): "null",
}


def compile_validator(schema: Mapping[str, Any]) -> Validator | None:
    """The check for one schema node; None where anything goes."""
    if schema.get("x-kubernetes-embedded-resource"):
        schema = with_object_metadata(schema, require_type=True)
    typed = _type_validator(schema)
    rest = [*([enum_validator(schema["enum"])] if "enum" in schema else []), *_combinator_validators(schema)]
    check = chain_validators([*([typed] if typed else []), *rest])
    if check is None or not schema.get("nullable"):
        return check
    sound = check
    return lambda value: None if value is None else sound(value)


def chain_validators(validators: list[Validator]) -> Validator | None:
    """Checks one after the other; the first that finds something ends it, as later ones may rely on it."""
    if len(validators) <= 1:
        return validators[0] if validators else None
    first, *others = validators

    def check(value: Any) -> ValidationResult:
        faults = first(value)
        if faults is not None:
            return faults
        for other in others:
            faults = other(value)
            if faults is not None:
                return faults
        return None

    return check


def type_error(value: Any, expected: str) -> list[FieldErrorBuilder]:
    """The one fault of a value that is of another JSON type."""
    found = JSON_TYPE_NAMES.get(type(value), "unknown")
    return [FieldErrorBuilder(FieldErrorType.TYPE, found, f'{{path}} in body must be of type {expected}: "{found}"')]


def _type_validator(schema: Mapping[str, Any]) -> Validator | None:
    if schema.get("x-kubernetes-int-or-string"):
        return _int_or_string_validator(schema)
    name = schema.get("type")
    if name is None:
        return _untyped_validator(schema)
    checks = _VALIDATORS_BY_TYPE[name](schema)
    inner = chain_validators(checks)
    if name == "integer":
        return _integer_validator(inner)
    if name == "number":
        return _number_validator(inner)
    return _exact_type_validator(_PYTHON_TYPES[name], name, inner)


def _exact_type_validator(expected: type, name: str, inner: Validator | None) -> Validator:
    if inner is None and expected is str:
        return _validate_string
    if inner is None:
        return lambda value: None if type(value) is expected else type_error(value, name)
    sound = inner
    return lambda value: sound(value) if type(value) is expected else type_error(value, name)


def _validate_string(value: Any) -> ValidationResult:
    return None if type(value) is str else type_error(value, "string")


def _integer_validator(inner: Validator | None) -> Validator:
    def check(value: Any) -> ValidationResult:
        if type(value) is int or (type(value) is float and value.is_integer()):
            return inner(value) if inner is not None else None
        return type_error(value, "integer")

    return check


def _number_validator(inner: Validator | None) -> Validator:
    def check(value: Any) -> ValidationResult:
        if type(value) is int or type(value) is float:
            return inner(value) if inner is not None else None
        return type_error(value, "number")

    return check


def _int_or_string_validator(schema: Mapping[str, Any]) -> Validator:
    of_number, of_string = chain_validators(number_validators(schema)), chain_validators(string_validators(schema))

    def check(value: Any) -> ValidationResult:
        if type(value) is str:
            return of_string(value) if of_string is not None else None
        if type(value) is int or (type(value) is float and value.is_integer()):
            return of_number(value) if of_number is not None else None
        return type_error(value, "integer,string")

    return check


def _untyped_validator(schema: Mapping[str, Any]) -> Validator | None:
    """Without a type, each keyword speaks only about values it fits."""
    table: dict[type, Validator] = {}
    for name, make in _VALIDATORS_BY_TYPE.items():
        inner = chain_validators(make(schema))
        if inner is not None:
            for wanted in (int, float) if name in ("integer", "number") else (_PYTHON_TYPES[name],):
                table[wanted] = inner
    if not table:
        return None

    def check(value: Any) -> ValidationResult:
        inner = table.get(type(value))
        return inner(value) if inner is not None else None

    return check


def _object_validators(schema: Mapping[str, Any]) -> list[Validator]:
    checks: list[Validator] = []
    properties = {name: compile_validator(child) for name, child in schema.get("properties", {}).items()}
    extra = schema.get("additionalProperties")
    others = compile_validator(extra) if isinstance(extra, Mapping) else None
    required = tuple(schema.get("required", ()))
    if required or others is not None or any(properties.values()):
        checks.append(_properties_validator(properties, others, required))
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None or most is not None:
        checks.append(_property_count_validator(least or 0, most))
    return checks


def _properties_validator(
    properties: Mapping[str, Validator | None], additional: Validator | None, required: tuple[str, ...]
) -> Validator:
    lookup = properties.get
    # Most members are plain strings: knowing those by name saves a call for each.
    texts = frozenset(name for name, inner in properties.items() if inner is _validate_string)

    def check(value: Any) -> ValidationResult:
        faults: list[FieldErrorBuilder] | None = None
        for name, member in value.items():
            if type(member) is str and name in texts:
                continue
            inner = lookup(name, additional)
            if inner is not None:
                found = inner(member)
                if found is not None:
                    faults = (faults or []) + [fault.prepend(name) for fault in found]
        for name in required:
            if name not in value:
                faults = [*(faults or ()), FieldErrorBuilder(FieldErrorType.REQUIRED).prepend(name)]
        return faults

    return check


def _property_count_validator(min_count: int, max_count: int | None) -> Validator:
    def check(value: Any) -> ValidationResult:
        if len(value) < min_count:
            return [
                FieldErrorBuilder(
                    FieldErrorType.INVALID, value, f"{{path}} in body should have at least {min_count} properties"
                )
            ]
        if max_count is not None and len(value) > max_count:
            return [FieldErrorBuilder(FieldErrorType.TOO_MANY, len(value), f"must have at most {max_count} items")]
        return None

    return check


def _array_validators(schema: Mapping[str, Any]) -> list[Validator]:
    items = schema.get("items")
    return list_validators(schema, compile_validator(items) if isinstance(items, Mapping) else None)


def _no_validators(schema: Mapping[str, Any]) -> list[Validator]:
    return []


_VALIDATORS_BY_TYPE: Final[dict[str, Callable[[Mapping[str, Any]], list[Validator]]]] = {
    "object": _object_validators,
    "array": _array_validators,
    "string": string_validators,
    "integer": number_validators,
    "number": number_validators,
    "boolean": _no_validators,
}
_PYTHON_TYPES: Final[dict[str, type]] = {"object": dict, "array": list, "string": str, "boolean": bool}


def _combinator_validators(schema: Mapping[str, Any]) -> Iterable[Validator]:
    if "allOf" in schema:
        yield _all_of_validator([check for part in schema["allOf"] if (check := compile_validator(part))])
    if "anyOf" in schema and not schema.get("x-kubernetes-int-or-string"):
        yield _any_of_validator([compile_validator(part) for part in schema["anyOf"]])
    if "oneOf" in schema:
        yield _one_of_validator([compile_validator(part) for part in schema["oneOf"]])
    if "not" in schema:
        yield _not_validator(compile_validator(schema["not"]))


def _all_of_validator(validators: list[Validator]) -> Validator:
    def check(value: Any) -> ValidationResult:
        faults = [fault for part in validators for fault in part(value) or ()]
        return (
            [FieldErrorBuilder(FieldErrorType.INVALID, "", '"{path}" must validate all the schemas (allOf)'), *faults]
            if faults
            else None
        )

    return check


def _any_of_validator(validators: list[Validator | None]) -> Validator:
    def check(value: Any) -> ValidationResult:
        tried: list[list[FieldErrorBuilder]] = []
        for part in validators:
            faults = part(value) if part is not None else None
            if faults is None:
                return None
            tried.append(faults)
        return [
            FieldErrorBuilder(FieldErrorType.INVALID, "", '"{path}" must validate at least one schema (anyOf)'),
            *_fewest_errors(tried),
        ]

    return check


def _one_of_validator(validators: list[Validator | None]) -> Validator:
    def check(value: Any) -> ValidationResult:
        outcomes = [part(value) if part is not None else None for part in validators]
        sound = sum(outcome is None for outcome in outcomes)
        if sound == 1:
            return None
        says = '"{path}" must validate one and only one schema (oneOf). Found '
        if sound:
            return [FieldErrorBuilder(FieldErrorType.INVALID, "", f"{says}{sound} valid alternatives")]
        return [
            FieldErrorBuilder(FieldErrorType.INVALID, "", f"{says}none valid"),
            *_fewest_errors([out for out in outcomes if out]),
        ]

    return check


def _not_validator(inner: Validator | None) -> Validator:
    def check(value: Any) -> ValidationResult:
        if inner is not None and inner(value) is not None:
            return None
        return [FieldErrorBuilder(FieldErrorType.INVALID, "", '"{path}" must not validate the schema (not)')]

    return check


def _fewest_errors(alternatives: list[list[FieldErrorBuilder]]) -> list[FieldErrorBuilder]:
    """The faults of the alternative that needs the fewest changes: most likely the one that was meant."""
    return min(alternatives, key=len, default=[])
