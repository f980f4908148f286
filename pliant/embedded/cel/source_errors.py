"""Errors with a position in the source of an expression, formatted as kube-apiserver formats them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceError:
    position: int
    message: str


class CompileError(Exception):
    """An expression that cannot be parsed, or has a type error."""

    def __init__(self, source: str, errors: Iterable[SourceError]) -> None:
        ordered = sorted(errors, key=lambda error: error.position)
        super().__init__("\n".join(format_error(source, error) for error in ordered))


def format_error(source: str, error: SourceError) -> str:
    """Return the message with the line of the source and a mark below the position."""
    position = min(error.position, len(source))
    start = source.rfind("\n", 0, position) + 1
    end = source.find("\n", position)
    line = source[start : end if end >= 0 else len(source)].replace("\t", " ")
    number, column = source.count("\n", 0, position) + 1, position - start
    mark = "".join("." if ord(character) < 128 else "．" for character in line[:column])
    mark += "＾" if column < len(line) and ord(line[column]) >= 128 else "^"
    return f"ERROR: <input>:{number}:{column + 1}: {error.message}\n | {line}\n | {mark}"
