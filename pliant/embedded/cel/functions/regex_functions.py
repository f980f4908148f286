"""Functions that match regular expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pliant.embedded.cel.functions.declarations import Library

if TYPE_CHECKING:
    from pliant.embedded.cel.regex.matcher import Pattern


def compile_pattern(pattern: str) -> Pattern:
    """Return a compiled regular expression; raise EvaluationError."""
    from pliant.embedded.cel.regex import matcher  # takes 2 ms, and few rules need it

    return matcher.compile_pattern(pattern)


def _matches(text: str, pattern: str) -> bool:
    return compile_pattern(pattern).is_match(text)


def _find(text: str, pattern: str) -> str:
    return next(compile_pattern(pattern).find_all(text), "")


def _find_all(text: str, pattern: str, limit: int = -1) -> list[Any]:
    found: list[Any] = []
    if limit == 0:
        return found
    for match in compile_pattern(pattern).find_all(text):
        found.append(match)
        if len(found) == limit:
            break
    return found


def declare_regex_functions(library: Library) -> None:
    library.declare("matches(string, string) -> bool", _matches, "matches")
    library.declare("(string).matches(string) -> bool", _matches, "matches_string")
    library.declare("(string).find(string) -> string", _find)
    library.declare("(string).findAll(string) -> list<string>", _find_all)
    library.declare("(string).findAll(string, int) -> list<string>", _find_all)
