"""Writes a story for people, or as data."""

from __future__ import annotations

import textwrap
from typing import Any

from pliant.cli.planned import TITLES
from pliant.cli.story import Story
from pliant.cli.style import Style
from pliant.cli.table import PHASE_COLOURS, Table

WIDEST = 110
PLAN_FIELDS = ("when", "name", "by", "phase", "asksFor", "why")


def story_text(story: Story, style: Style, width: int) -> str:
    """Headline, reasons, history and advice, with a line between them."""
    room = min(width or WIDEST, WIDEST)
    colour = PHASE_COLOURS.get(story.phase, "1")
    parts = ["\n".join(style.paint(colour, line) for line in _wrapped(story.headline, room, "", ""))]
    if story.why:
        lines: list[str] = []
        for sentence in story.why:
            lines += _wrapped(sentence.text, room, "• ", "  ")
            lines += [f"    {style.dim('│')} {line}" for line in sentence.quoted]
        parts.append(_section("Why", lines, style))
    if story.accounts:
        parts.append(
            _section("So far", [w for text in story.accounts for w in _wrapped(text, room, "• ", "  ")], style)
        )
    if story.plans:
        table = Table(TITLES, style, width - 2 if width else 0)
        parts.append(_section("Plans", [f"  {line}" for line in table.lines(story.plans)], style))
    if story.history:
        table = Table(("WHEN", "WHAT", "WHY"), style, width - 2 if width else 0)
        parts.append(_section("Newest first", [f"  {line}" for line in table.lines(story.history)[1:]], style))
    if story.remedies:
        lines = [w for text in story.remedies for w in _wrapped(text, room, "→ ", "  ")]
        parts.append(_section("Try", lines, style))
    return "\n\n".join(parts)


def story_data(story: Story) -> dict[str, Any]:
    """The same for programs."""
    return {
        "name": story.name,
        "phase": story.phase,
        "headline": story.headline,
        "why": [{"text": each.text, "lastLines": list(each.quoted)} for each in story.why],
        "soFar": list(story.accounts),
        "plans": [dict(zip(PLAN_FIELDS, row, strict=True)) for row in story.plans],
        "history": [{"when": when, "what": what, "why": why} for when, what, why in story.history],
        "try": list(story.remedies),
    }


def _section(title: str, lines: list[str], style: Style) -> str:
    return "\n".join([style.bold(title), *lines])


def _wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    wrapping = textwrap.TextWrapper(
        width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return wrapping.wrap(text)
