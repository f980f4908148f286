"""Reads what a program reports about its progress: a line `pliant: step=120 loss=0.31 total=1000`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

MARK = "pliant: "
MOST_FIELDS = 8
FULL, EMPTY = "█", "░"
_FIELD = re.compile(r"([A-Za-z_][\w.]{0,31})=([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf|-inf)(?=\s|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a group has come."""

    step: int | None = None
    total: int | None = None
    figures: tuple[tuple[str, float], ...] = ()
    """Everything else that was reported, in the order written: `loss`, `accuracy`, …"""

    @property
    def share(self) -> float | None:
        """The part that is done, from 0 to 1; None if nobody said what is the whole."""
        if self.step is None or not self.total or self.total < 0:
            return None
        return min(max(self.step / self.total, 0.0), 1.0)

    def __str__(self) -> str:
        parts = []
        if self.step is not None:
            parts.append(f"step {self.step}" + (f"/{self.total}" if self.total else ""))
        parts += [f"{name} {value:.4g}" for name, value in self.figures]
        return "  ".join(parts)


def reported(line: str, before: Progress | None = None) -> Progress | None:
    """What a line reports, added to what was known; None if it reports nothing."""
    start = line.find(MARK)
    if start < 0:
        return None
    fields = dict(_FIELD.findall(line[start + len(MARK) :])[:MOST_FIELDS])
    if not fields:
        return None
    known = before or Progress()
    figures = {**dict(known.figures), **{n: float(v) for n, v in fields.items() if n not in ("step", "total")}}
    return Progress(
        step=_whole(fields.get("step"), known.step),
        total=_whole(fields.get("total"), known.total),
        figures=tuple(figures.items())[:MOST_FIELDS],
    )


def figure(text: str) -> float | None:
    """The number that a text is; None if it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def bar(share: float, width: int = 20) -> str:
    """A bar of so many characters: `███████░░░`."""
    full = round(share * width)
    return FULL * full + EMPTY * (width - full)


def _whole(text: str | None, known: int | None) -> int | None:
    if text is None:
        return known
    number = float(text)
    return int(number) if math.isfinite(number) else known
