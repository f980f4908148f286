"""Says what is wrong with the input: where, which field, what, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pliant.cli.style import Style
from pliant.errors import PliantError, UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A spot in a file that a person can jump to."""

    source: str
    line: int = 0
    column: int = 0
    text: str = ""
    """The whole line, as written."""
    width: int = 1

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing to mend before the input can be used."""

    what: str
    place: Place | None = None
    field: str = ""
    owner: str = ""
    """The object the field belongs to, as `Kind name`."""
    fix: str = ""
    meant: str = ""
    """The field that this one was probably meant to be."""


class InvalidInput(UserError):
    """The files cannot be used as they are."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.what for problem in self.problems))


def refuse(what: str, *, place: Place | None = None, fix: str = "") -> InvalidInput:
    """The error for a single problem that concerns no field."""
    return InvalidInput([Problem(what=what, place=place, fix=fix)])


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What to raise in place of a group: the first error raised on purpose, or else the group itself."""
    found: BaseException | None = group.subgroup(PliantError)
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found or group


def problem_text(problem: Problem, style: Style) -> str:
    """A problem the way a compiler would show it: place, source line, caret, field and fix."""
    place = problem.place
    start = f"{style.bold(str(place))}: " if place else ""
    lines = [f"{start}{style.red('error')}: {problem.what}"]
    about = " of ".join(part for part in (problem.field, problem.owner) if part)
    if place and place.text.strip():
        shown, caret = _excerpt(place)
        lines.append(f"{place.line:5d} {style.dim('│')} {shown}")
        lines.append(f"      {style.dim('│')} {style.red(caret)} {about}".rstrip())
    elif about:
        lines.append(f"  in {about}")
    if problem.fix:
        lines.append(f"  {style.green('fix')}: {problem.fix}")
    return "\n".join(lines)


_WIDEST = 100


def _excerpt(place: Place) -> tuple[str, str]:
    """The source line and the carets under it; only the part around the spot when the line is long."""
    column = max(place.column - 1, 0)
    start = 0 if column < _WIDEST else column - 20
    shown = "".join(char if char.isprintable() else " " for char in place.text[start : start + _WIDEST])
    width = max(1, min(place.width, len(shown) - (column - start)))
    return shown, " " * (column - start) + "^" * width
