"""Turns a structural schema into one function that finds every fault of a value.

A check answers None for a sound value. Faults gather their path while they travel outward, so sound values, the
common case, cost neither strings nor lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pliant.embedded.schema.lists import list_checks
from pliant.embedded.schema.metadata import as_resource
from pliant.embedded.schema.problems import Fault, Reason
from pliant.embedded.schema.scalars import enum_check, number_checks, string_checks

Faults = list[Fault] | None
Check = Callable[[Any], Faults]

JSON_TYPES: Final[dict[type, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    type(None): "null",
}


def compile_check(schema: Mapping[str, Any]) -> Check | None:
    """The check for one schema node; None where anything goes."""
    if schema.get("x-kubernetes-embedded-resource"):
        schema = as_resource(schema, strict=True)
    typed = _of_type(schema)
    rest = [*([enum_check(schema["enum"])] if "enum" in schema else []), *_junctors(schema)]
    check = in_turn([*([typed] if typed else []), *rest])
    if check is None or not schema.get("nullable"):
        return check
    sound = check
    return lambda value: None if value is None else sound(value)


def in_turn(checks: list[Check]) -> Check | None:
    """Checks one after the other; the first that finds something ends it, as later ones may rely on it."""
    if len(checks) <= 1:
        return checks[0] if checks else None
    first, *others = checks

    def check(value: Any) -> Faults:
        faults = first(value)
        if faults is not None:
            return faults
        for other in others:
            faults = other(value)
            if faults is not None:
                return faults
        return None

    return check


def wrong_type(value: Any, wanted: str) -> list[Fault]:
    """The one fault of a value that is of another JSON type."""
    found = JSON_TYPES.get(type(value), "unknown")
    return [Fault(Reason.TYPE, found, f'{{path}} in body must be of type {wanted}: "{found}"')]


def _of_type(schema: Mapping[str, Any]) -> Check | None:
    if schema.get("x-kubernetes-int-or-string"):
        return _int_or_string(schema)
    name = schema.get("type")
    if name is None:
        return _by_instance(schema)
    checks = _TYPED[name](schema)
    inner = in_turn(checks)
    if name == "integer":
        return _integer(inner)
    if name == "number":
        return _number(inner)
    return _plain(_PYTHON_TYPES[name], name, inner)


def _plain(wanted: type, name: str, inner: Check | None) -> Check:
    if inner is None and wanted is str:
        return _is_text
    if inner is None:
        return lambda value: None if type(value) is wanted else wrong_type(value, name)
    sound = inner
    return lambda value: sound(value) if type(value) is wanted else wrong_type(value, name)


def _is_text(value: Any) -> Faults:
    return None if type(value) is str else wrong_type(value, "string")


def _integer(inner: Check | None) -> Check:
    def check(value: Any) -> Faults:
        if type(value) is int or (type(value) is float and value.is_integer()):
            return inner(value) if inner is not None else None
        return wrong_type(value, "integer")

    return check


def _number(inner: Check | None) -> Check:
    def check(value: Any) -> Faults:
        if type(value) is int or type(value) is float:
            return inner(value) if inner is not None else None
        return wrong_type(value, "number")

    return check


def _int_or_string(schema: Mapping[str, Any]) -> Check:
    of_number, of_string = in_turn(number_checks(schema)), in_turn(string_checks(schema))

    def check(value: Any) -> Faults:
        if type(value) is str:
            return of_string(value) if of_string is not None else None
        if type(value) is int or (type(value) is float and value.is_integer()):
            return of_number(value) if of_number is not None else None
        return wrong_type(value, "integer,string")

    return check


def _by_instance(schema: Mapping[str, Any]) -> Check | None:
    """Without a type, each keyword speaks only about values it fits."""
    table: dict[type, Check] = {}
    for name, make in _TYPED.items():
        inner = in_turn(make(schema))
        if inner is not None:
            for wanted in (int, float) if name in ("integer", "number") else (_PYTHON_TYPES[name],):
                table[wanted] = inner
    if not table:
        return None

    def check(value: Any) -> Faults:
        inner = table.get(type(value))
        return inner(value) if inner is not None else None

    return check


def _object_checks(schema: Mapping[str, Any]) -> list[Check]:
    checks: list[Check] = []
    properties = {name: compile_check(child) for name, child in schema.get("properties", {}).items()}
    extra = schema.get("additionalProperties")
    others = compile_check(extra) if isinstance(extra, Mapping) else None
    required = tuple(schema.get("required", ()))
    if required or others is not None or any(properties.values()):
        checks.append(_members(properties, others, required))
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None or most is not None:
        checks.append(_member_count(least or 0, most))
    return checks


def _members(properties: Mapping[str, Check | None], others: Check | None, required: tuple[str, ...]) -> Check:
    lookup = properties.get
    # Most members are plain strings: knowing those by name saves a call for each.
    texts = frozenset(name for name, inner in properties.items() if inner is _is_text)

    def check(value: Any) -> Faults:
        faults: list[Fault] | None = None
        for name, member in value.items():
            if type(member) is str and name in texts:
                continue
            inner = lookup(name, others)
            if inner is not None:
                found = inner(member)
                if found is not None:
                    faults = (faults or []) + [fault.at(name) for fault in found]
        for name in required:
            if name not in value:
                faults = [*(faults or ()), Fault(Reason.REQUIRED).at(name)]
        return faults

    return check


def _member_count(least: int, most: int | None) -> Check:
    def check(value: Any) -> Faults:
        if len(value) < least:
            return [Fault(Reason.INVALID, value, f"{{path}} in body should have at least {least} properties")]
        if most is not None and len(value) > most:
            return [Fault(Reason.TOO_MANY, len(value), f"must have at most {most} items")]
        return None

    return check


def _array_checks(schema: Mapping[str, Any]) -> list[Check]:
    items = schema.get("items")
    return list_checks(schema, compile_check(items) if isinstance(items, Mapping) else None)


def _nothing(schema: Mapping[str, Any]) -> list[Check]:
    return []


_TYPED: Final[dict[str, Callable[[Mapping[str, Any]], list[Check]]]] = {
    "object": _object_checks,
    "array": _array_checks,
    "string": string_checks,
    "integer": number_checks,
    "number": number_checks,
    "boolean": _nothing,
}
_PYTHON_TYPES: Final[dict[str, type]] = {"object": dict, "array": list, "string": str, "boolean": bool}


def _junctors(schema: Mapping[str, Any]) -> Iterable[Check]:
    if "allOf" in schema:
        yield _all_of([check for part in schema["allOf"] if (check := compile_check(part))])
    if "anyOf" in schema and not schema.get("x-kubernetes-int-or-string"):
        yield _any_of([compile_check(part) for part in schema["anyOf"]])
    if "oneOf" in schema:
        yield _one_of([compile_check(part) for part in schema["oneOf"]])
    if "not" in schema:
        yield _negation(compile_check(schema["not"]))


def _all_of(checks: list[Check]) -> Check:
    def check(value: Any) -> Faults:
        faults = [fault for part in checks for fault in part(value) or ()]
        return (
            [Fault(Reason.INVALID, "", '"{path}" must validate all the schemas (allOf)'), *faults]
            if faults
            else None
        )

    return check


def _any_of(checks: list[Check | None]) -> Check:
    def check(value: Any) -> Faults:
        tried: list[list[Fault]] = []
        for part in checks:
            faults = part(value) if part is not None else None
            if faults is None:
                return None
            tried.append(faults)
        return [Fault(Reason.INVALID, "", '"{path}" must validate at least one schema (anyOf)'), *_closest(tried)]

    return check


def _one_of(checks: list[Check | None]) -> Check:
    def check(value: Any) -> Faults:
        outcomes = [part(value) if part is not None else None for part in checks]
        sound = sum(outcome is None for outcome in outcomes)
        if sound == 1:
            return None
        says = '"{path}" must validate one and only one schema (oneOf). Found '
        if sound:
            return [Fault(Reason.INVALID, "", f"{says}{sound} valid alternatives")]
        return [Fault(Reason.INVALID, "", f"{says}none valid"), *_closest([out for out in outcomes if out])]

    return check


def _negation(inner: Check | None) -> Check:
    def check(value: Any) -> Faults:
        if inner is not None and inner(value) is not None:
            return None
        return [Fault(Reason.INVALID, "", '"{path}" must not validate the schema (not)')]

    return check


def _closest(tried: list[list[Fault]]) -> list[Fault]:
    """The faults of the alternative that needs the fewest changes: most likely the one that was meant."""
    return min(tried, key=len, default=[])
