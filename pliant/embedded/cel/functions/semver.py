"""Semantic versions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from pliant.embedded.cel import types
from pliant.embedded.cel.functions.declarations import Library
from pliant.embedded.cel.functions.network import parses
from pliant.embedded.cel.values import EvaluationError, register_value_class

_NUMBER: Final = r"(0|[1-9][0-9]{0,18})"
_IDENTIFIERS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION: Final = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_IDENTIFIERS}))?(?:\+({_IDENTIFIERS}))?")


@dataclass(frozen=True, slots=True)
class SemverValue:
    numbers: tuple[int, ...]
    prerelease: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[Any, ...]:
        """Return a key by which versions are ordered: a prerelease is before its release."""
        parts = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in self.prerelease)
        return (self.numbers, not self.prerelease, parts)


register_value_class(SemverValue, types.SEMVER)


def _parse(text: str, normalizes: bool = False) -> SemverValue:
    match = _VERSION.fullmatch(_normalize(text) if normalizes else text)
    prerelease = tuple(match[4].split(".")) if match is not None and match[4] else ()
    if match is None or any(part.isdecimal() and part != "0" and part[0] == "0" for part in prerelease):
        raise EvaluationError(_find_problem(text))
    return SemverValue(tuple(int(match[group]) for group in (1, 2, 3)), prerelease)


def _find_problem(text: str) -> str:
    """Return why a text is no version."""
    if not text:
        return "Version string empty"
    parts = text.split(".", 2)
    if len(parts) != 3:
        return "No Major.Minor.Patch elements found"
    parts[2] = re.split(r"[-+]", parts[2])[0]
    for name, part in zip(("major", "minor", "patch"), parts, strict=True):
        if not re.fullmatch(r"[0-9]+", part):
            return f'Invalid character(s) found in {name} number "{part}"'
        if len(part) > 1 and part[0] == "0":
            return f'{name.capitalize()} number must not contain leading zeroes "{part}"'
    return f'Invalid character(s) found in prerelease "{text}"'


def _normalize(text: str) -> str:
    """Remove a leading v and leading zeros, and add missing numbers."""
    match = re.match(r"[0-9.]+", text.removeprefix("v"))
    core = match[0] if match is not None else ""
    numbers = [number.lstrip("0") or "0" for number in core.split(".")]
    return ".".join([*numbers, "0", "0"][: max(3, len(numbers))]) + text.removeprefix("v")[len(core) :]


def _compare(left: SemverValue, right: SemverValue) -> int:
    return (left.order > right.order) - (left.order < right.order)


def declare_semver_functions(library: Library) -> None:
    declare = library.declare
    for parameters in ("string", "string, bool"):
        declare(f"semver({parameters}) -> Semver", _parse)
        declare(f"isSemver({parameters}) -> bool", parses(_parse))
    declare("(Semver).isGreaterThan(Semver) -> bool", lambda left, right: _compare(left, right) > 0)
    declare("(Semver).isLessThan(Semver) -> bool", lambda left, right: _compare(left, right) < 0)
    declare("(Semver).compareTo(Semver) -> int", _compare)
    for position, name in enumerate(("major", "minor", "patch")):
        declare(f"(Semver).{name}() -> int", lambda version, position=position: version.numbers[position])
