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
from pliant.frontends.reading import bare, quoted, read

T = TypeVar("T")

OTHER_WORDS = {"portnum": "portsnum", "portnumforsparse": "portsnumforsparse"}
"""Words that were in use for a field beside its own, folded."""
STORED = frozenset({"replicaspec", "paddlereplicaspecs", "etcdendpoint", "nfsmount", "matrix", "indexsucceed"})
"""Fields of other operators, folded, that mean nothing here and are no mistake."""
MOST_WARNINGS = 8
_LONGEST_NAME = 60
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_NOTHING = "null"
"""What templates of old wrote, as text, for a value that is not there."""


@dataclass(slots=True)
class _Notes:
    """What was noticed in reading."""

    places: dict[str, str] = field(default_factory=dict)
    """Where a field is really written, by where it should be."""
    warnings: list[str] = field(default_factory=list)


def read_spelled(kind: type[T], raw: Any, path: str) -> tuple[T, tuple[str, ...]]:
    """One typed value and what its author should know; raises InvalidSpec for the first field that does not fit.

    Words may be joined by `-`, by `_` or by capitals; numbers and truths may be text. Fields that nobody knows are
    warned of: old definitions kept whatever was written.
    """
    notes = _Notes()
    plain = _plain(_shape(cast("Hashable", kind)), raw, path, notes)
    try:
        found = read(kind, plain, path)
    except InvalidSpec as problem:
        raise InvalidSpec(_written(problem.field, notes.places), problem.problem) from None
    return found, tuple(notes.warnings[:MOST_WARNINGS])


@lru_cache(maxsize=1024)
def folded(name: str) -> str:
    """A name without what tells its spellings apart."""
    return re.sub("[-_]", "", name).lower()


def _plain(shape: inspect.Type, raw: Any, path: str, notes: _Notes) -> Any:
    """The same value in the spelling and of the types that its reader expects, as far as that can be told."""
    match bare(shape):
        case inspect.StructType(fields=fields) if isinstance(raw, Mapping):
            return dict(_entries(fields, raw, path, notes))
        case inspect.IntType() if isinstance(raw, str):
            text = raw.strip()
            return int(text) if _INTEGER.fullmatch(text) else _nothing(raw)
        case inspect.BoolType() if isinstance(raw, str | int):
            return _TRUTH.get(str(raw).strip().lower(), _nothing(raw))
        case inspect.StrType():
            return _nothing(raw)
        case inspect.ListType() if isinstance(raw, Mapping):
            return [raw] if raw else []  # samples show a map where there is only one
        case _:
            return raw


def _entries(
    fields: tuple[inspect.Field, ...], raw: Mapping[str, Any], path: str, notes: _Notes
) -> Iterator[tuple[str, Any]]:
    known, place = _by_folded_name(fields), _written(path, notes.places)
    seen: dict[str, str] = {}
    for name, value in raw.items():
        word = folded(str(name))
        word = OTHER_WORDS.get(word, word)
        if word not in known:
            if word not in STORED:
                notes.warnings.append(_unknown(str(name), place, [field.encode_name for field in fields]))
            continue
        if value is None:
            continue
        if (twin := seen.setdefault(word, name)) != name:
            if raw[twin] == value:
                continue
            raise InvalidSpec(f"{place}.{name}", f"says otherwise than {place}.{twin}: keep one of the two")
        wanted = known[word]
        notes.places[f"{path}.{wanted.encode_name}"] = f"{place}.{name}"
        yield wanted.encode_name, _plain(wanted.type, value, f"{path}.{wanted.encode_name}", notes)


@cache
def _shape(kind: Hashable) -> inspect.Type:
    return inspect.type_info(kind)


def _by_folded_name(fields: tuple[inspect.Field, ...]) -> dict[str, inspect.Field]:
    return {folded(field.encode_name): field for field in fields}


def _unknown(name: str, path: str, names: list[str]) -> str:
    close = get_close_matches(name[:_LONGEST_NAME], names, n=1)
    hint = f": did you mean {close[0]}?" if close else ""
    return f"{path}.{name[:_LONGEST_NAME]} is not known and not read{hint}"


def _nothing(raw: Any) -> Any:
    return None if isinstance(raw, str) and raw.strip().lower() == _NOTHING else raw


def _written(field_path: str, places: Mapping[str, str]) -> str:
    """A path in the words of whoever wrote the object."""
    for expected in sorted(places, key=len, reverse=True):
        if field_path == expected or field_path.startswith((f"{expected}.", f"{expected}[")):
            return places[expected] + field_path[len(expected) :]
    return field_path


def number_in(value: Any, path: str, example: str) -> int:
    """A whole number of 0 or more, however it is written; raises InvalidSpec for anything else."""
    text = str(value).strip()
    if isinstance(value, bool) or not _INTEGER.fullmatch(text) or int(text) < 0:
        raise InvalidSpec(path, f"must be {example}, got {quoted(value)}")
    return int(text)
