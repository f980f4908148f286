"""Functions of strings: the standard ones and those of the strings extension."""

from __future__ import annotations

import string
from typing import Final

from pliant.embedded.cel.functions.declarations import Library
from pliant.embedded.cel.functions.operators import require_length
from pliant.embedded.cel.functions.string_format import format_string
from pliant.embedded.cel.values import EvaluationError

_TO_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_TO_UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_QUOTED: Final = str.maketrans(
    {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\""}
)


def _out_of_range(position: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {position}")


def _char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise _out_of_range(position)
    return text[position : position + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if not part:
        return len(text) if start is None else start
    if start is None:
        return text.rfind(part)
    if start < 0:
        raise _out_of_range(start)
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old)
    require_length(len(text) + (count if limit < 0 else min(count, limit)) * len(new))
    return text.replace(old, new, limit)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        parts = list(text)
        return parts if limit < 0 or len(parts) <= limit else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for position in (start, *([end] if end is not None else [])):
        if not 0 <= position <= len(text):
            raise _out_of_range(position)
    return text[start:end]


def _join(parts: list[object], separator: str = "") -> str:
    for part in parts:
        if not isinstance(part, str):
            raise EvaluationError(f"join: invalid input: {part}")
    require_length(sum(map(len, map(str, parts))) + len(separator) * len(parts))
    return separator.join(map(str, parts))


def declare_string_functions(library: Library) -> None:
    declare = library.declare
    declare("(string).contains(string) -> bool", lambda text, part: part in text, "contains_string")
    declare("(string).startsWith(string) -> bool", str.startswith, "starts_with_string")
    declare("(string).endsWith(string) -> bool", str.endswith, "ends_with_string")
    declare("(string).charAt(int) -> string", _char_at)
    declare("(string).indexOf(string) -> int", _index_of)
    declare("(string).indexOf(string, int) -> int", _index_of)
    declare("(string).lastIndexOf(string) -> int", _last_index_of)
    declare("(string).lastIndexOf(string, int) -> int", _last_index_of)
    declare("(string).lowerAscii() -> string", lambda text: text.translate(_TO_LOWER))
    declare("(string).upperAscii() -> string", lambda text: text.translate(_TO_UPPER))
    declare("(string).replace(string, string) -> string", _replace)
    declare("(string).replace(string, string, int) -> string", _replace)
    declare("(string).split(string) -> list<string>", _split)
    declare("(string).split(string, int) -> list<string>", _split)
    declare("(string).substring(int) -> string", _substring)
    declare("(string).substring(int, int) -> string", _substring)
    declare("(string).trim() -> string", str.strip)
    declare("(string).format(list<dyn>) -> string", format_string, "string_format")
    declare("strings.quote(string) -> string", lambda text: f'"{text.translate(_QUOTED)}"', "strings_quote")
    declare("(list<string>).join() -> string", _join)
    declare("(list<string>).join(string) -> string", _join)
