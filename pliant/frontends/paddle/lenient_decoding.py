"""Decode specs leniently: several spellings of fields, and numbers and booleans as strings."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, cast

from msgspec import inspect

from pliant.errors import InvalidSpec
from pliant.frontends.spec.decoding import abbreviate_json, decode, type_info_of, unwrap_type

T = TypeVar("T")

FIELD_ALIASES = {"portnum": "portsnum", "portnumforsparse": "portsnumforsparse"}
"""Normalized aliases of fields."""
SILENTLY_IGNORED_FIELDS = frozenset(
    {"replicaspec", "paddlereplicaspecs", "etcdendpoint", "nfsmount", "matrix", "indexsucceed"}
)
"""Normalized names of fields of other operators that are ignored without a warning."""
MAX_REPORTED_UNKNOWN_FIELDS = 8
_MAX_NAME_CHARS = 60
_INTEGER_PATTERN = re.compile(r"[+-]?[0-9]{1,18}")
_BOOLEAN_BY_TEXT = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_NULL_TEXT = "null"
"""The string that old templates contain for an absent value."""


class UnknownField(NamedTuple):
    """A field that is ignored because it is not known, and the known field with the closest name."""

    path: str
    suggestion: str

    def __str__(self) -> str:
        return f"{self.path} is unknown and ignored" + (f": did you mean {self.suggestion}?" if self.suggestion else "")


@dataclass(slots=True)
class _DecodingNotes:
    written_paths: dict[str, str] = field(default_factory=dict)
    """The path that the user wrote, by canonical path."""
    unknown_fields: list[UnknownField] = field(default_factory=list)


def decode_leniently(decode_as: type[T], raw: Any, path: str) -> tuple[T, tuple[UnknownField, ...]]:
    """Decode a value and return it with its unknown fields; raise InvalidSpec for the first invalid field.

    Field names may be written with `-`, `_` or capitals; numbers and booleans may be strings. Unknown fields are
    returned because the original CRDs did not prune them.
    """
    notes = _DecodingNotes()
    normalized = _normalize_value(type_info_of(cast("Hashable", decode_as)), raw, path, notes)
    try:
        value = decode(decode_as, normalized, path)
    except InvalidSpec as problem:
        raise InvalidSpec(_path_as_written(problem.field, notes.written_paths), problem.problem) from None
    return value, tuple(notes.unknown_fields[:MAX_REPORTED_UNKNOWN_FIELDS])


@lru_cache(maxsize=1024)
def normalize_field_name(name: str) -> str:
    """Return the lower-case name without `-` and `_`."""
    return re.sub("[-_]", "", name).lower()


def _normalize_value(type_info: inspect.Type, raw: Any, path: str, notes: _DecodingNotes) -> Any:
    """Return the value with canonical field names and types."""
    match unwrap_type(type_info):
        case inspect.StructType(fields=fields) if isinstance(raw, Mapping):
            return dict(_normalize_fields(fields, raw, path, notes))
        case inspect.IntType() if isinstance(raw, str):
            text = raw.strip()
            return int(text) if _INTEGER_PATTERN.fullmatch(text) else _null_text_to_none(raw)
        case inspect.BoolType() if isinstance(raw, str | int):
            return _BOOLEAN_BY_TEXT.get(str(raw).strip().lower(), _null_text_to_none(raw))
        case inspect.StrType():
            return _null_text_to_none(raw)
        case inspect.ListType() if isinstance(raw, Mapping):
            return [raw] if raw else []  # examples of the original operators show a map for a single item
        case _:
            return raw


def _normalize_fields(
    fields: tuple[inspect.Field, ...], raw: Mapping[str, Any], path: str, notes: _DecodingNotes
) -> Iterator[tuple[str, Any]]:
    known = {normalize_field_name(each.encode_name): each for each in fields}
    written_path = _path_as_written(path, notes.written_paths)
    written_names: dict[str, str] = {}
    for name, value in raw.items():
        normalized = normalize_field_name(str(name))
        normalized = FIELD_ALIASES.get(normalized, normalized)
        if normalized not in known:
            if normalized not in SILENTLY_IGNORED_FIELDS:
                short_name = str(name)[:_MAX_NAME_CHARS]
                close = get_close_matches(short_name, [each.encode_name for each in fields], n=1)
                notes.unknown_fields.append(UnknownField(f"{written_path}.{short_name}", close[0] if close else ""))
            continue
        if value is None:
            continue
        if (duplicate := written_names.setdefault(normalized, name)) != name:
            if raw[duplicate] == value:
                continue
            raise InvalidSpec(f"{written_path}.{name}", f"differs from {written_path}.{duplicate}: remove one of them")
        target = known[normalized]
        notes.written_paths[f"{path}.{target.encode_name}"] = f"{written_path}.{name}"
        yield target.encode_name, _normalize_value(target.type, value, f"{path}.{target.encode_name}", notes)


def _null_text_to_none(raw: Any) -> Any:
    return None if isinstance(raw, str) and raw.strip().lower() == _NULL_TEXT else raw


def _path_as_written(field_path: str, written_paths: Mapping[str, str]) -> str:
    """Return a canonical path in the spelling of the user."""
    for canonical in sorted(written_paths, key=len, reverse=True):
        if field_path == canonical or field_path.startswith((f"{canonical}.", f"{canonical}[")):
            return written_paths[canonical] + field_path[len(canonical) :]
    return field_path


def parse_count(value: Any, path: str, expected: str) -> int:
    """Return a non-negative integer from a number or string; raise InvalidSpec for anything else."""
    text = str(value).strip()
    if isinstance(value, bool) or not _INTEGER_PATTERN.fullmatch(text) or int(text) < 0:
        raise InvalidSpec(path, f"must be {expected}, got {abbreviate_json(value)}")
    return int(text)
