"""Problems of the input: location, field, message and fix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pliant.cli.output.style import TerminalStyle
from pliant.errors import PliantError, UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """A location in a file."""

    source: str
    line: int = 0
    column: int = 0
    text: str = ""  # the whole line
    width: int = 1

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class InputProblem:
    """A problem that the user must fix before the input can be used."""

    message: str
    location: SourceLocation | None = None
    field: str = ""
    object_title: str = ""  # `Kind name`
    fix: str = ""
    intended_field: str = ""  # the field that was probably meant


class InvalidInput(UserError):
    """The input has problems."""

    def __init__(self, problems: Iterable[InputProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.message for problem in self.problems))

    def __str__(self) -> str:
        """Return all problems with location, field and fix, as the commands print them."""
        return "\n\n".join(format_problem(problem, TerminalStyle()) for problem in self.problems)


def input_error(message: str, *, location: SourceLocation | None = None, fix: str = "") -> InvalidInput:
    """Return the error for a single problem without a field."""
    return InvalidInput([InputProblem(message=message, location=location, fix=fix)])


def first_pliant_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first PliantError of a group, or else the group."""
    error: BaseException | None = group.subgroup(PliantError)
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error or group


def format_problem(problem: InputProblem, style: TerminalStyle) -> str:
    """Format a problem as compilers do: location, source line, caret, field and fix."""
    location = problem.location
    prefix = f"{style.bold(str(location))}: " if location else ""
    lines = [f"{prefix}{style.red('error')}: {problem.message}"]
    subject = " of ".join(part for part in (problem.field, problem.object_title) if part)
    if location and location.text.strip():
        excerpt, carets = _source_excerpt(location)
        lines.append(f"{location.line:5d} {style.dim('│')} {excerpt}")
        lines.append(f"      {style.dim('│')} {style.red(carets)} {subject}".rstrip())
    elif subject:
        lines.append(f"  in {subject}")
    if problem.fix:
        lines.append(f"  {style.green('fix')}: {problem.fix}")
    return "\n".join(lines)


_MAX_EXCERPT_WIDTH = 100


def _source_excerpt(location: SourceLocation) -> tuple[str, str]:
    """Return the source line and the carets below it; only a part if the line is long."""
    column = max(location.column - 1, 0)
    start = 0 if column < _MAX_EXCERPT_WIDTH else column - 20
    excerpt = "".join(char if char.isprintable() else " " for char in location.text[start : start + _MAX_EXCERPT_WIDTH])
    width = max(1, min(location.width, len(excerpt) - (column - start)))
    return excerpt, " " * (column - start) + "^" * width
