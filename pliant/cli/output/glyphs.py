"""The characters of bars, sparklines and charts, with replacements for terminals that lack them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

MAX_DRAWN_VALUE = 1e100  # greater values are drawn like infinity: differences of them could overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    bar_full: str
    bar_empty: str
    spark_levels: str  # from the lowest to the highest value
    not_finite: str  # in a sparkline, a value that is nan or infinite
    has_braille: bool  # whether charts have eight dots per character; otherwise one `*`
    vertical: str
    horizontal: str
    corner: str
    tick: str
    mark: str
    dashed: str

    @classmethod
    def for_stream(cls, stream: TextIO) -> Glyphs:
        """Return Unicode characters if the encoding and the terminal can show them, else ASCII characters."""
        try:
            UNICODE_SAMPLE.encode(stream.encoding or "utf-8")
        except (LookupError, UnicodeEncodeError):
            return ASCII_GLYPHS
        # The fonts of the Linux console have neither Braille patterns nor most of the block elements.
        return ASCII_GLYPHS if stream.isatty() and os.environ.get("TERM") == "linux" else UNICODE_GLYPHS


UNICODE_GLYPHS = Glyphs(
    bar_full="█",
    bar_empty="░",
    spark_levels="▁▂▃▄▅▆▇█",
    not_finite="×",
    has_braille=True,
    vertical="│",
    horizontal="─",
    corner="└",
    tick="┬",
    mark="▲",
    dashed="┆",
)
ASCII_GLYPHS = Glyphs(
    bar_full="#",
    bar_empty=".",
    spark_levels="_.-~=+*#",
    not_finite="x",
    has_braille=False,
    vertical="|",
    horizontal="-",
    corner="+",
    tick="+",
    mark="^",
    dashed=":",
)
UNICODE_SAMPLE = "█░▁⣿│┬▲┆×"


def is_drawable(value: float) -> bool:
    return math.isfinite(value) and abs(value) < MAX_DRAWN_VALUE


def render_bar(fraction: float, width: int = 20, glyphs: Glyphs = UNICODE_GLYPHS) -> str:
    """Return a bar: `███████░░░`."""
    full = round(fraction * width)
    return glyphs.bar_full * full + glyphs.bar_empty * (width - full)


def render_sparkline(values: Sequence[float], glyphs: Glyphs = UNICODE_GLYPHS) -> str:
    """Return one character per value: `█▅▃▂▁`; the scale is from the lowest to the highest finite value."""
    finite = [value for value in values if is_drawable(value)]
    low, levels = min(finite, default=0.0), glyphs.spark_levels
    span = max(finite, default=0.0) - low
    middle = levels[len(levels) // 2 - 1]

    def level(value: float) -> str:
        if not is_drawable(value):
            return glyphs.not_finite
        return levels[min(int((value - low) / span * len(levels)), len(levels) - 1)] if span else middle

    return "".join(map(level, values))
