"""The explanation of a job as a typed value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pliant.cli.explain.job_explanation import JobExplanation
from pliant.cli.explain.render import MAX_EXPLANATION_WIDTH, render_explanation
from pliant.cli.output.style import TerminalStyle


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What happened to a job and why; `str` returns the text of `pliant why`."""

    phase: str
    headline: str
    reasons: tuple[str, ...] = ()
    """The root cause, or what the job waits for."""
    log_lines: tuple[str, ...] = ()
    """The log lines that show the reasons."""
    details: tuple[str, ...] = ()
    """Restart budgets, sizes and progress."""
    suggestions: tuple[str, ...] = ()
    text: str = ""

    def __str__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: Any, is_cyclic: bool) -> None:
        """Show the text in notebooks."""
        printer.text(self.text)


def to_explanation(explanation: JobExplanation) -> Explanation:
    return Explanation(
        phase=explanation.phase,
        headline=explanation.headline,
        reasons=tuple(reason.text for reason in explanation.reasons),
        log_lines=tuple(line for reason in explanation.reasons for line in reason.log_lines),
        details=tuple(explanation.details),
        suggestions=tuple(explanation.remedies),
        text=render_explanation(explanation, TerminalStyle(), MAX_EXPLANATION_WIDTH),
    )
