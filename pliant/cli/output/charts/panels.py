"""The content of charts, independent of how they are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pliant.cli.output.glyphs import is_drawable

TICKS_PER_AXIS = 4
MIN_RELATIVE_SPAN = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    name: str
    times: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPanel:
    title: str
    lines: tuple[ChartLine, ...]
    unit: str = ""
    min_axis_max: float = 0.0  # the minimum upper end of the axis
    min_tick_step: float = 0.0  # 1 for counts
    is_stepped: bool = True  # whether each value holds until the next one
    starts_at_zero: bool = True  # whether the axis starts at 0 instead of near the lowest value
    text_rows: int = 8  # the height of the panel in a text


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartMark:
    """A moment that is marked in all panels."""

    time: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartAxis:
    """The ends of a vertical axis and the distance of its ticks."""

    low: float
    high: float
    step: float

    @classmethod
    def for_panel(cls, panel: ChartPanel) -> ChartAxis:
        """Return an axis with round ends that shows all finite values."""
        values = [value for line in panel.lines for value in line.values if is_drawable(value)]
        highest = max([*values, panel.min_axis_max]) if values or panel.starts_at_zero else 0.0
        lowest = min(values, default=0.0)
        base = min(lowest, 0.0) if panel.starts_at_zero else lowest
        span = highest - base
        if span <= abs(highest) * MIN_RELATIVE_SPAN:  # all values are the same, as far as numbers can tell
            span = abs(highest) or 1.0
        step = max(round_tick_step(span / TICKS_PER_AXIS), panel.min_tick_step)
        low = 0.0 if base == 0.0 else step * math.floor(base / step)
        return cls(low=low, high=low + step * max(1, math.ceil((highest - low) / step - 1e-9)), step=step)

    @property
    def ticks(self) -> list[float]:
        return [self.low + index * self.step for index in range(round((self.high - self.low) / self.step) + 1)]

    def fraction(self, value: float) -> float:
        """Return where a value is on the axis: 0 at the lower end, 1 at the upper end."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


def finite_segments(line: ChartLine) -> list[list[tuple[float, float]]]:
    """Return the points of a line, interrupted where a value is not finite."""
    segments: list[list[tuple[float, float]]] = [[]]
    for time, value in zip(line.times, line.values, strict=True):
        if is_drawable(value):
            segments[-1].append((time, value))
        elif segments[-1]:
            segments.append([])
    return [segment for segment in segments if segment]


def round_tick_step(target: float) -> float:
    """Return a round number near the target: 1, 2, 2.5 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(target)) if target > 0 else 1.0
    return next((power * times for times in (1, 2, 2.5, 5, 10) if power * times >= target * 0.999), power * 10)


_TICK_SPANS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, 86400)
MAX_TIME_TICKS = 10


def time_ticks(end: float, max_ticks: int = MAX_TIME_TICKS) -> list[float]:
    span = next((span for span in _TICK_SPANS if end / span <= max_ticks), end / max_ticks)
    return [span * index for index in range(int(end / span) + 1)]


def format_time_tick(seconds: float, end: float) -> str:
    """Format a time since the start in the unit that suits the whole axis."""
    return f"{seconds:g} s" if end < 900 else f"{seconds / 60:g} min" if end < 14400 else f"{seconds / 3600:g} h"
