"""Writes a story for people, or as data."""

from __future__ import annotations

import textwrap
from typing import Any

from pliant.cli.cluster.scale_plans import PLAN_COLUMNS
from pliant.cli.explain.job_explanation import JobExplanation
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import PHASE_COLOURS, Table

MAX_WIDTH = 110
PLAN_FIELDS = ("when", "name", "by", "phase", "asksFor", "why")


def render_explanation(explanation: JobExplanation, style: TerminalStyle, width: int) -> str:
    """Headline, reasons, history and advice, with a line between them."""
    room = min(width or MAX_WIDTH, MAX_WIDTH)
    colour = PHASE_COLOURS.get(explanation.phase, "1")
    parts = ["\n".join(style.paint(colour, line) for line in _wrap_text(explanation.headline, room, "", ""))]
    if explanation.reasons:
        lines: list[str] = []
        for sentence in explanation.reasons:
            lines += _wrap_text(sentence.text, room, "• ", "  ")
            lines += [f"    {style.dim('│')} {line}" for line in sentence.log_lines]
        parts.append(_render_section("Why", lines, style))
    if explanation.facts:
        parts.append(
            _render_section(
                "So far", [w for text in explanation.facts for w in _wrap_text(text, room, "• ", "  ")], style
            )
        )
    if explanation.plans:
        table = Table(PLAN_COLUMNS, style, width - 2 if width else 0)
        parts.append(_render_section("Plans", [f"  {line}" for line in table.render(explanation.plans)], style))
    if explanation.timeline:
        table = Table(("WHEN", "WHAT", "WHY"), style, width - 2 if width else 0)
        parts.append(
            _render_section("Newest first", [f"  {line}" for line in table.render(explanation.timeline)[1:]], style)
        )
    if explanation.remedies:
        lines = [w for text in explanation.remedies for w in _wrap_text(text, room, "→ ", "  ")]
        parts.append(_render_section("Try", lines, style))
    return "\n\n".join(parts)


def explanation_to_dict(explanation: JobExplanation) -> dict[str, Any]:
    """The same for programs."""
    return {
        "name": explanation.name,
        "phase": explanation.phase,
        "headline": explanation.headline,
        "why": [{"text": each.text, "lastLines": list(each.log_lines)} for each in explanation.reasons],
        "soFar": list(explanation.facts),
        "plans": [dict(zip(PLAN_FIELDS, row, strict=True)) for row in explanation.plans],
        "history": [{"when": when, "what": what, "why": why} for when, what, why in explanation.timeline],
        "try": list(explanation.remedies),
    }


def _render_section(title: str, lines: list[str], style: TerminalStyle) -> str:
    return "\n".join([style.bold(title), *lines])


def _wrap_text(text: str, width: int, first_indent: str, next_indent: str) -> list[str]:
    wrapping = textwrap.TextWrapper(
        width,
        initial_indent=first_indent,
        subsequent_indent=next_indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapping.wrap(text)
