"""Says what is wrong with the input: where, which field, what, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pliant.cli.output.style import TerminalStyle
from pliant.errors import PliantError, UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
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
class InputProblem:
    """One thing to mend before the input can be used."""

    message: str
    location: SourceLocation | None = None
    field: str = ""
    object_title: str = ""
    """The object the field belongs to, as `Kind name`."""
    fix: str = ""
    intended_field: str = ""
    """The field that this one was probably meant to be."""


class InvalidInput(UserError):
    """The files cannot be used as they are."""

    def __init__(self, problems: Iterable[InputProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.message for problem in self.problems))


def input_error(message: str, *, location: SourceLocation | None = None, fix: str = "") -> InvalidInput:
    """The error for a single problem that concerns no field."""
    return InvalidInput([InputProblem(message=message, location=location, fix=fix)])


def first_pliant_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What to raise in place of a group: the first error raised on purpose, or else the group itself."""
    found: BaseException | None = group.subgroup(PliantError)
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found or group


def format_problem(problem: InputProblem, style: TerminalStyle) -> str:
    """A problem the way a compiler would show it: place, source line, caret, field and fix."""
    place = problem.location
    start = f"{style.bold(str(place))}: " if place else ""
    lines = [f"{start}{style.red('error')}: {problem.message}"]
    about = " of ".join(part for part in (problem.field, problem.object_title) if part)
    if place and place.text.strip():
        shown, caret = _source_excerpt(place)
        lines.append(f"{place.line:5d} {style.dim('│')} {shown}")
        lines.append(f"      {style.dim('│')} {style.red(caret)} {about}".rstrip())
    elif about:
        lines.append(f"  in {about}")
    if problem.fix:
        lines.append(f"  {style.green('fix')}: {problem.fix}")
    return "\n".join(lines)


_MAX_EXCERPT_WIDTH = 100


def _source_excerpt(location: SourceLocation) -> tuple[str, str]:
    """The source line and the carets under it; only the part around the spot when the line is long."""
    column = max(location.column - 1, 0)
    start = 0 if column < _MAX_EXCERPT_WIDTH else column - 20
    shown = "".join(char if char.isprintable() else " " for char in location.text[start : start + _MAX_EXCERPT_WIDTH])
    width = max(1, min(location.width, len(shown) - (column - start)))
    return shown, " " * (column - start) + "^" * width
