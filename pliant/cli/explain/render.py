"""Renders the explanation of a job as text or as data."""

from __future__ import annotations

import textwrap
from typing import Any

from pliant.cli.cluster.scale_plans import PLAN_COLUMNS
from pliant.cli.explain.job_explanation import JobExplanation
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import PHASE_COLOURS, Table

MAX_EXPLANATION_WIDTH = 110
PLAN_JSON_KEYS = ("age", "name", "source", "phase", "request", "message")


def render_explanation(explanation: JobExplanation, style: TerminalStyle, width: int) -> str:
    room = min(width or MAX_EXPLANATION_WIDTH, MAX_EXPLANATION_WIDTH)
    colour = PHASE_COLOURS.get(explanation.phase, "1")
    parts = ["\n".join(style.paint(colour, line) for line in _wrap_text(explanation.headline, room, "", ""))]
    if explanation.reasons:
        lines: list[str] = []
        for sentence in explanation.reasons:
            lines += _wrap_text(sentence.text, room, "• ", "  ")
            lines += [f"    {style.dim('│')} {line}" for line in sentence.log_lines]
        parts.append(_render_section("Why", lines, style))
    if explanation.details:
        lines = [line for text in explanation.details for line in _wrap_text(text, room, "• ", "  ")]
        parts.append(_render_section("Details", lines, style))
    if explanation.plan_rows:
        table = Table(PLAN_COLUMNS, style, width - 2 if width else 0)
        parts.append(
            _render_section("Scale plans", [f"  {line}" for line in table.render(explanation.plan_rows)], style)
        )
    if explanation.timeline:
        table = Table(("AGE", "REASON", "MESSAGE"), style, width - 2 if width else 0)
        lines = [f"  {line}" for line in table.render(explanation.timeline)[1:]]
        parts.append(_render_section("Timeline (newest first)", lines, style))
    if explanation.remedies:
        lines = [line for text in explanation.remedies for line in _wrap_text(text, room, "→ ", "  ")]
        parts.append(_render_section("Suggestions", lines, style))
    return "\n\n".join(parts)


def explanation_to_dict(explanation: JobExplanation) -> dict[str, Any]:
    return {
        "name": explanation.name,
        "phase": explanation.phase,
        "headline": explanation.headline,
        "reasons": [{"text": each.text, "logLines": list(each.log_lines)} for each in explanation.reasons],
        "details": list(explanation.details),
        "plans": [dict(zip(PLAN_JSON_KEYS, row, strict=True)) for row in explanation.plan_rows],
        "timeline": [{"age": age, "reason": reason, "message": text} for age, reason, text in explanation.timeline],
        "suggestions": list(explanation.remedies),
    }


def _render_section(title: str, lines: list[str], style: TerminalStyle) -> str:
    return "\n".join([style.bold(title), *lines])


def _wrap_text(text: str, width: int, first_indent: str, next_indent: str) -> list[str]:
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    wrapper.initial_indent, wrapper.subsequent_indent = first_indent, next_indent
    return wrapper.wrap(text)
