"""Label and field selectors, parsed once and asked often."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Labels an object must have; the empty selector matches everything."""

    requirements: tuple[Callable[[Labels], bool], ...] = ()

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Read `a=b,c!=d,e in (f,g),h notin (i),j,!k`; BadRequest tells what cannot be read."""
        return _parse_label_selector(text.strip())

    def matches(self, labels: Labels | None) -> bool:
        """Whether every requirement holds."""
        labels = labels or {}
        return all(holds(labels) for holds in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)


@lru_cache(maxsize=512)
def _parse_label_selector(text: str) -> LabelSelector:
    found = []
    position = 0
    while position < len(text):
        match = _REQUIREMENT_PATTERN.match(text, position)
        if match is None:
            raise _selector_parse_error(text, f"cannot read it from {text[position:]!r} on")
        found.append(_build_requirement(match, text))
        position = match.end()
    if text.endswith(","):
        raise _selector_parse_error(text, "found '', expected: identifier after ','")
    return LabelSelector(tuple(found))


def _build_requirement(match: re.Match[str], text: str) -> Callable[[Labels], bool]:
    key = match["absent"] or match["set_key"] or match["key"] or match["present"]
    if trouble := qualified_name_problem(key):
        raise _selector_parse_error(text, f'Invalid value: "{key}": {trouble}')
    if match["absent"]:
        return lambda labels: key not in labels
    if match["present"]:
        return lambda labels: key in labels
    if match["set_op"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        _require_valid_values(values, text)
        if match["set_op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    return _build_comparison(key, match["op"], match["value"], text)


def _build_comparison(key: str, operator: str, value: str, text: str) -> Callable[[Labels], bool]:
    if operator in ("<", ">"):
        if not re.fullmatch(r"-?\d+", value):
            raise _selector_parse_error(
                text, f"Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
            )
        bound, above = int(value), operator == ">"
        return lambda labels: _is_beyond_bound(labels.get(key), bound, is_above=above)
    _require_valid_values(frozenset({value}), text)
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _is_beyond_bound(value: str | None, bound: int, *, is_above: bool) -> bool:
    if value is None or not re.fullmatch(r"-?\d+", value):
        return False
    return int(value) > bound if is_above else int(value) < bound


def _require_valid_values(values: frozenset[str], text: str) -> None:
    for value in values:
        if trouble := label_value_problem(value):
            raise _selector_parse_error(text, f'Invalid value: "{value}": {trouble}')


def _selector_parse_error(text: str, reason: str) -> BadRequest:
    return BadRequest(400, "BadRequest", f'unable to parse requirement: "{text}": {reason}')


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Fields that must have, or must not have, a value."""

    terms: tuple[tuple[str, str, bool], ...] = ()
    """Field, value, and whether they must be equal."""

    @classmethod
    def parse(cls, text: str, kind: Kind | None = None) -> FieldSelector:
        """Read `a=b,c!=d`; BadRequest names what cannot be read, or a field `kind` cannot be selected by."""
        terms = tuple(_parse_field_term(part, text) for part in re.split(r"(?<!\\),", text.strip()) if part.strip())
        if kind is not None:
            for field, _, _ in terms:
                _require_selectable(kind, field)
        return cls(terms)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields it looks at."""
        return tuple(field for field, _, _ in self.terms)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether every term holds; a field that is not there counts as empty."""
        return all((fields.get(field, "") == value) is equal for field, value, equal in self.terms)

    def matches_object(self, obj: Mapping[str, Any]) -> bool:
        """Whether every term holds of an object; looks only at the fields it names."""
        return all((field_value(obj, field) == value) is equal for field, value, equal in self.terms)

    def with_renamed_fields(self, rename: Callable[[str], str]) -> FieldSelector:
        """The same terms about fields of other names."""
        return FieldSelector(tuple((rename(field), value, equal) for field, value, equal in self.terms))

    def required_value(self, field: str) -> str | None:
        """The one value this selector leaves a field, if it names one."""
        return next((value for name, value, equal in self.terms if equal and name == field), None)

    def __bool__(self) -> bool:
        return bool(self.terms)


ALWAYS_SELECTABLE: Final = ("metadata.name", "metadata.namespace")
_FIELD_ALIASES: Final = {"source": "source.component"}
_DEFAULT_FIELD_VALUES: Final = {"spec.unschedulable": "false", "spec.hostNetwork": "false"}


def field_value(obj: Mapping[str, Any], field: str) -> str:
    """A field as selectors compare it: text, empty when absent."""
    value: Any = obj
    for step in _FIELD_ALIASES.get(field, field).split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if value is None:
        return _DEFAULT_FIELD_VALUES.get(field, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def selectable_fields(kind: Kind, obj: Mapping[str, Any]) -> dict[str, str]:
    """Every field of an object that its kind can be selected by."""
    return {field: field_value(obj, field) for field in (*ALWAYS_SELECTABLE, *kind.selectable_fields)}


def _parse_field_term(part: str, text: str) -> tuple[str, str, bool]:
    match = re.fullmatch(r"\s*([^=!]+?)\s*(==|!=|=)\s*(.*?)\s*", part)
    if match is None:
        raise BadRequest(400, "BadRequest", f"invalid selector: '{text}'; can't understand '{part.strip()}'")
    return match[1], re.sub(r"\\([\\,=])", r"\1", match[3]), match[2] != "!="


def _require_selectable(kind: Kind, field: str) -> None:
    if field not in ALWAYS_SELECTABLE and field not in kind.selectable_fields:
        supported = ", ".join((*ALWAYS_SELECTABLE, *kind.selectable_fields))
        raise BadRequest(
            400, "BadRequest", f"field label not supported: {field} ({kind.qualified_name} know {supported})"
        )
