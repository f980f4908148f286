"""Formats by name, such as `format.dns1123Label()`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pliant.embedded.cel import types
from pliant.embedded.cel.functions.declarations import Library
from pliant.embedded.cel.values import NO_VALUE, OptionalValue, register_value_class
from pliant.embedded.schema.formats import STRING_FORMAT_CHECKS
from pliant.embedded.schema.metadata import (
    DNS_1035_LABEL_RULE,
    DNS_LABEL_RULE,
    DNS_SUBDOMAIN_RULE,
    NameRule,
    label_value_problem,
    name_problem,
    qualified_name_problem,
)


@dataclass(frozen=True, slots=True)
class NamedFormatValue:
    name: str


register_value_class(NamedFormatValue, types.NAMED_FORMAT)


def _follows(rule: NameRule, *, is_prefix: bool = False) -> Callable[[str], str]:
    """Return a function that returns what is wrong with a name; a prefix may end with a dash."""

    def find_problem(text: str) -> str:
        return name_problem(f"{text[:-1]}a" if is_prefix and len(text) > 1 and text[-1] == "-" else text, rule)

    return find_problem


def _has_format(name: str, problem: str) -> Callable[[str], str]:
    return lambda text: "" if STRING_FORMAT_CHECKS[name](text) else problem


_FORMATS: Final[dict[str, Callable[[str], str]]] = {
    "dns1123Label": _follows(DNS_LABEL_RULE),
    "dns1123Subdomain": _follows(DNS_SUBDOMAIN_RULE),
    "dns1035Label": _follows(DNS_1035_LABEL_RULE),
    "dns1123LabelPrefix": _follows(DNS_LABEL_RULE, is_prefix=True),
    "dns1123SubdomainPrefix": _follows(DNS_SUBDOMAIN_RULE, is_prefix=True),
    "dns1035LabelPrefix": _follows(DNS_1035_LABEL_RULE, is_prefix=True),
    "qualifiedName": qualified_name_problem,
    "labelValue": label_value_problem,
    "uri": lambda text: "" if STRING_FORMAT_CHECKS["uri"](text) else f'parse "{text}": invalid URI for request',
    "uuid": _has_format("uuid", "does not match the UUID format"),
    "byte": _has_format("byte", "invalid base64"),
    "date": _has_format("date", "invalid date"),
    "datetime": _has_format("datetime", "invalid datetime"),
}


def _find_named(name: str) -> OptionalValue:
    return OptionalValue(True, NamedFormatValue(name)) if name in _FORMATS else NO_VALUE


def _validate(named: NamedFormatValue, text: str) -> OptionalValue:
    problem = _FORMATS[named.name](text)
    return OptionalValue(True, [problem]) if problem else NO_VALUE


def declare_format_functions(library: Library) -> None:
    library.declare("(NamedFormat).validate(string) -> optional_type<list<string>>", _validate)
    library.declare("format.named(string) -> optional_type<NamedFormat>", _find_named)
    for name in _FORMATS:
        value = NamedFormatValue(name)
        library.declare(f"format.{name}() -> NamedFormat", lambda value=value: value)
