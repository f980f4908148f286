"""Fields as people have spelled them over the years, and as one reader expects them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, TypeVar, cast

from msgspec import inspect

from pliant.errors import InvalidSpec
from pliant.frontends.spec.decoding import decode, quote_json, unwrap_type

T = TypeVar("T")

FIELD_ALIASES = {"portnum": "portsnum", "portnumforsparse": "portsnumforsparse"}
"""Words that were in use for a field beside its own, folded."""
IGNORED_FIELDS = frozenset({"replicaspec", "paddlereplicaspecs", "etcdendpoint", "nfsmount", "matrix", "indexsucceed"})
"""Fields of other operators, folded, that mean nothing here and are no mistake."""
MAX_WARNINGS = 8
_MAX_NAME_CHARS = 60
_INTEGER_PATTERN = re.compile(r"[+-]?[0-9]{1,18}")
_BOOLEAN_BY_TEXT = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_NULL_TEXT = "null"
"""What templates of old wrote, as text, for a value that is not there."""


@dataclass(slots=True)
class _DecodingNotes:
    """What was noticed in reading."""

    written_paths: dict[str, str] = field(default_factory=dict)
    """Where a field is really written, by where it should be."""
    warnings: list[str] = field(default_factory=list)


def decode_leniently(decode_as: type[T], raw: Any, path: str) -> tuple[T, tuple[str, ...]]:
    """One typed value and what its author should know; raises InvalidSpec for the first field that does not fit.

    Words may be joined by `-`, by `_` or by capitals; numbers and truths may be text. Fields that nobody knows are
    warned of: old definitions kept whatever was written.
    """
    notes = _DecodingNotes()
    plain = _normalize_value(_type_info(cast("Hashable", decode_as)), raw, path, notes)
    try:
        found = decode(decode_as, plain, path)
    except InvalidSpec as problem:
        raise InvalidSpec(_path_as_written(problem.field, notes.written_paths), problem.problem) from None
    return found, tuple(notes.warnings[:MAX_WARNINGS])


@lru_cache(maxsize=1024)
def normalize_field_name(name: str) -> str:
    """A name without what tells its spellings apart."""
    return re.sub("[-_]", "", name).lower()


def _normalize_value(type_info: inspect.Type, raw: Any, path: str, notes: _DecodingNotes) -> Any:
    """The same value in the spelling and of the types that its reader expects, as far as that can be told."""
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
            return [raw] if raw else []  # samples show a map where there is only one
        case _:
            return raw


def _normalize_fields(
    fields: tuple[inspect.Field, ...], raw: Mapping[str, Any], path: str, notes: _DecodingNotes
) -> Iterator[tuple[str, Any]]:
    known, place = _fields_by_normalized_name(fields), _path_as_written(path, notes.written_paths)
    seen: dict[str, str] = {}
    for name, value in raw.items():
        word = normalize_field_name(str(name))
        word = FIELD_ALIASES.get(word, word)
        if word not in known:
            if word not in IGNORED_FIELDS:
                notes.warnings.append(_unknown_field_warning(str(name), place, [field.encode_name for field in fields]))
            continue
        if value is None:
            continue
        if (twin := seen.setdefault(word, name)) != name:
            if raw[twin] == value:
                continue
            raise InvalidSpec(f"{place}.{name}", f"says otherwise than {place}.{twin}: keep one of the two")
        wanted = known[word]
        notes.written_paths[f"{path}.{wanted.encode_name}"] = f"{place}.{name}"
        yield wanted.encode_name, _normalize_value(wanted.type, value, f"{path}.{wanted.encode_name}", notes)


@cache
def _type_info(decode_as: Hashable) -> inspect.Type:
    return inspect.type_info(decode_as)


def _fields_by_normalized_name(fields: tuple[inspect.Field, ...]) -> dict[str, inspect.Field]:
    return {normalize_field_name(field.encode_name): field for field in fields}


def _unknown_field_warning(name: str, path: str, known_names: list[str]) -> str:
    close = get_close_matches(name[:_MAX_NAME_CHARS], known_names, n=1)
    hint = f": did you mean {close[0]}?" if close else ""
    return f"{path}.{name[:_MAX_NAME_CHARS]} is not known and not read{hint}"


def _null_text_to_none(raw: Any) -> Any:
    return None if isinstance(raw, str) and raw.strip().lower() == _NULL_TEXT else raw


def _path_as_written(field_path: str, written_paths: Mapping[str, str]) -> str:
    """A path in the words of whoever wrote the object."""
    for expected in sorted(written_paths, key=len, reverse=True):
        if field_path == expected or field_path.startswith((f"{expected}.", f"{expected}[")):
            return written_paths[expected] + field_path[len(expected) :]
    return field_path


def parse_count(value: Any, path: str, expected: str) -> int:
    """A whole number of 0 or more, however it is written; raises InvalidSpec for anything else."""
    text = str(value).strip()
    if isinstance(value, bool) or not _INTEGER_PATTERN.fullmatch(text) or int(text) < 0:
        raise InvalidSpec(path, f"must be {expected}, got {quote_json(value)}")
    return int(text)
