"""Label selectors and field selectors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema.metadata import label_value_problem, qualified_name_problem
from pliant.errors import BadRequest

Labels = Mapping[str, str]

_KEY_PATTERN = r"[^\s,!=<>()]+"
_REQUIREMENT_PATTERN: Final = re.compile(
    rf"""\s*(?:
        !\s*(?P<absent>{_KEY_PATTERN})
      | (?P<set_key>{_KEY_PATTERN})\s+(?P<set_op>in|notin)\s*\((?P<values>[^()]*)\)
      | (?P<key>{_KEY_PATTERN})\s*(?P<op>==|!=|=|<|>)\s*(?P<value>[^\s,!=<>()]*)
      | (?P<present>{_KEY_PATTERN})
    )\s*(?:,|\Z)""",
    re.VERBOSE,
)
_INT64_PATTERN: Final = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A parsed label selector; the empty selector matches everything."""

    requirements: tuple[Callable[[Labels], bool], ...] = ()

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Parse `a=b,c!=d,e in (f,g),h notin (i),j,!k`; raise `BadRequest` for invalid syntax, keys or values."""
        return _parse_label_selector(text.strip())

    def matches(self, labels: Labels | None) -> bool:
        labels = labels or {}
        return all(is_met(labels) for is_met in self.requirements)


@lru_cache(maxsize=512)
def _parse_label_selector(text: str) -> LabelSelector:
    requirements = []
    position = 0
    while position < len(text):
        match = _REQUIREMENT_PATTERN.match(text, position)
        if match is None:
            raise _selector_parse_error(f"found '{text[position:]}', expected: a requirement such as key=value")
        requirements.append(_build_requirement(match))
        position = match.end()
    if text.endswith(","):
        raise _selector_parse_error("found '', expected: identifier after ','")
    return LabelSelector(tuple(requirements))


def _build_requirement(match: re.Match[str]) -> Callable[[Labels], bool]:
    key = match["absent"] or match["set_key"] or match["key"] or match["present"]
    if problem := qualified_name_problem(key):
        raise _selector_parse_error(f'key: Invalid value: "{key}": {problem}')
    if match["absent"]:
        return lambda labels: key not in labels
    if match["present"]:
        return lambda labels: key in labels
    if match["set_op"]:
        listed = [value.strip() for value in match["values"].split(",")]
        _require_valid_values(key, listed)
        values = frozenset(listed)
        if match["set_op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    return _build_comparison(key, match["op"], match["value"])


def _build_comparison(key: str, operator: str, value: str) -> Callable[[Labels], bool]:
    if operator in ("<", ">"):
        bound, is_above = _parse_int64(value), operator == ">"
        if bound is None:
            problem = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise _selector_parse_error(f'values[0]: Invalid value: "{value}": {problem}')
        return lambda labels: _is_beyond_bound(labels.get(key), bound, is_above=is_above)
    _require_valid_values(key, [value])
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _is_beyond_bound(value: str | None, bound: int, *, is_above: bool) -> bool:
    number = None if value is None else _parse_int64(value)
    if number is None:
        return False
    return number > bound if is_above else number < bound


def _parse_int64(text: str) -> int | None:
    if not _INT64_PATTERN.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _require_valid_values(key: str, values: Sequence[str]) -> None:
    for index, value in enumerate(values):
        if problem := label_value_problem(value):
            raise _selector_parse_error(f'values[{index}][{key}]: Invalid value: "{value}": {problem}')


def _selector_parse_error(reason: str) -> BadRequest:
    return BadRequest(400, "BadRequest", f"unable to parse requirement: {reason}")


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A parsed field selector; the empty selector matches everything."""

    terms: tuple[tuple[str, str, bool], ...] = ()
    """Field, value, and whether they must be equal."""

    @classmethod
    def parse(cls, text: str, kind: Kind | None = None) -> FieldSelector:
        """Parse `a=b,c!=d`; raise `BadRequest` for invalid syntax and for fields that `kind` does not support."""
        terms = tuple(_parse_field_term(part, text) for part in re.split(r"(?<!\\),", text.strip()) if part.strip())
        if kind is not None:
            old_names = _OLD_FIELD_NAMES.get(kind.resource_key, {})
            terms = tuple((old_names.get(field, field), value, equal) for field, value, equal in terms)
            for field, _, _ in terms:
                _require_selectable(kind, field)
        return cls(terms)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether fields, given by their paths, match; an absent field counts as empty."""
        return all((fields.get(field, "") == value) is equal for field, value, equal in self.terms)

    def matches_object(self, obj: Mapping[str, Any]) -> bool:
        return all((selectable_field_value(obj, field) == value) is equal for field, value, equal in self.terms)

    def with_renamed_fields(self, rename: Callable[[str], str]) -> FieldSelector:
        return FieldSelector(tuple((rename(field), value, equal) for field, value, equal in self.terms))

    def required_value(self, field: str) -> str | None:
        """Return the value that the selector requires of a field, or None."""
        return next((value for name, value, equal in self.terms if equal and name == field), None)


ALWAYS_SELECTABLE_FIELDS: Final = ("metadata.name", "metadata.namespace")
_FIELD_ALIASES: Final = {"source": "source.component", "status.successful": "status.succeeded"}
_OLD_FIELD_NAMES: Final = {"/pods": {"spec.host": "spec.nodeName"}}
"""Names by which old clients select, by the kind."""
_DEFAULT_FIELD_VALUES: Final = {"spec.hostNetwork": "false", "spec.unschedulable": "false", "status.successful": "0"}


def selectable_field_value(obj: Mapping[str, Any], field: str) -> str:
    """Return a field as selectors compare it: a string, empty when the field is absent."""
    value: Any = obj
    for step in _FIELD_ALIASES.get(field, field).split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if value is None:
        return _DEFAULT_FIELD_VALUES.get(field, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _parse_field_term(part: str, text: str) -> tuple[str, str, bool]:
    match = re.fullmatch(r"\s*([^=!]+?)\s*(==|!=|=)\s*(.*?)\s*", part)
    if match is None:
        raise BadRequest(400, "BadRequest", f"invalid selector: '{text}'; can't understand '{part.strip()}'")
    return match[1], re.sub(r"\\([\\,=])", r"\1", match[3]), match[2] != "!="


def _require_selectable(kind: Kind, field: str) -> None:
    if field not in ALWAYS_SELECTABLE_FIELDS and field not in kind.selectable_fields:
        message = f"field label not supported: {field}"
        if not kind.is_custom and not kind.selectable_fields:
            message = f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        raise BadRequest(400, "BadRequest", message)
