"""Draws what came of simulated runs as SVG: how full the cluster was, who waited, how fair it was, who grew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from pliant.simulation.run import Outcome

WIDTH, HEIGHT = 860, 190
"""Of one panel, in pixels, with its margins."""
LEFT, RIGHT, TOP, BOTTOM = 58, 150, 30, 28
ROW = 16
MOST_NAMES = 9
"""Lines that are named beside a panel; there is no room for more."""
INK, FAINT, GRID = "#24292f", "#57606a", "#d8dee4"
COLOURS = (
    "#0969da", "#cf222e", "#1a7f37", "#9a6700", "#8250df", "#bf3989", "#1b7c83", "#57606a", "#bc4c00", "#4c2889",
)  # fmt: skip
FONT = "DejaVu Sans,Verdana,Helvetica,Arial,sans-serif"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a panel."""

    name: str
    times: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Lines over one stretch of time."""

    title: str
    lines: tuple[Line, ...]
    unit: str = ""
    most: float = 0.0
    """What the axis reaches to at the least."""


def picture(outcomes: Sequence[Outcome], title: str) -> str:
    """All panels, one below the other: policies side by side first, then the sizes under each of them."""
    panels = [*_compared(outcomes), *(_sizes(outcome) for outcome in outcomes if outcome.series.counts)]
    end = max((outcome.series.times[-1] for outcome in outcomes), default=0.0) or 1.0
    height = len(panels) * HEIGHT + TOP
    parts = [_text(12, 21, title, size=15, weight="bold")]
    parts += [_panel(panel, TOP + number * HEIGHT, end) for number, panel in enumerate(panels)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-label="{escape(title)}" font-family="{FONT}">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _compared(outcomes: Sequence[Outcome]) -> list[Panel]:
    def lines(values: Iterable[Sequence[float]]) -> tuple[Line, ...]:
        return tuple(
            Line(name=outcome.figures.policy, times=outcome.series.times, values=list(row))
            for outcome, row in zip(outcomes, values, strict=True)
        )

    runs = [outcome.series for outcome in outcomes]
    used = lines([part * 100 for part in run.used] for run in runs)
    return [
        Panel(title="CPU of running pods, of all there is", lines=used, unit=" %", most=100.0),
        Panel(title="pods that wait for room", lines=lines(run.waiting for run in runs), most=1.0),
        Panel(
            title="fairness: Jain’s index of members that run", lines=lines(run.fairness for run in runs), most=1.0
        ),
    ]


def _sizes(outcome: Outcome) -> Panel:
    series = outcome.series
    lines = tuple(
        Line(name=name, times=series.times[series.begins[name] :], values=counts)
        for name, counts in series.counts.items()
    )
    return Panel(title=f"members that run, by job, under {outcome.figures.policy}", lines=lines, most=1.0)


def _panel(panel: Panel, top: int, end: float) -> str:
    highest = max((max(line.values) for line in panel.lines if line.values), default=0.0)
    step = _step(max(highest, panel.most) / 4)
    reach = step * max(1, -(-max(highest, panel.most) // step))
    right, bottom = WIDTH - RIGHT, top + HEIGHT - BOTTOM

    def across(time: float) -> float:
        return LEFT + (right - LEFT) * time / end

    def up(value: float) -> float:
        return bottom - (bottom - top - TOP) * value / reach

    parts = [_text(LEFT, top + 20, panel.title, size=12, weight="bold")]
    for number in range(round(reach / step) + 1):
        value = number * step
        parts.append(_rule(LEFT, up(value), right, up(value)))
        parts.append(_text(LEFT - 6, up(value) + 4, f"{value:g}{panel.unit}", anchor="end", colour=FAINT))
    for time in _ticks(end):
        parts.append(_rule(across(time), bottom, across(time), bottom + 4))
        parts.append(_text(across(time), bottom + 16, _time(time, end), anchor="middle", colour=FAINT))
    for number, line in enumerate(panel.lines):
        colour = COLOURS[number % len(COLOURS)]
        points = [(across(time), up(value)) for time, value in zip(line.times, line.values, strict=True)]
        parts.append(f'<path d="{_stairs(points)}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    return "\n".join([*parts, *_names(panel, top)])


def _names(panel: Panel, top: int) -> Iterable[str]:
    shown = panel.lines if len(panel.lines) <= MOST_NAMES else panel.lines[: MOST_NAMES - 1]
    left = WIDTH - RIGHT + 14
    for number, line in enumerate(shown):
        height = top + TOP + 8 + number * ROW
        colour = COLOURS[number % len(COLOURS)]
        yield f'<rect x="{left}" y="{height - 8}" width="12" height="4" fill="{colour}"/>'
        yield _text(left + 18, height - 1, line.name)
    if len(shown) < len(panel.lines):
        height = top + TOP + 8 + len(shown) * ROW
        yield _text(left + 18, height - 1, f"and {len(panel.lines) - len(shown)} more", colour=FAINT)


def _stairs(points: Sequence[tuple[float, float]]) -> str:
    """A path that holds each value until the next; places where it stays level are left out."""
    if not points:
        return ""
    (x, y), *rest = points
    words, level = [f"M{x:.1f} {y:.1f}"], y
    for x, y in rest:
        if y != level:
            words.append(f"H{x:.1f}V{y:.1f}")
            level = y
    return "".join([*words, f"H{points[-1][0]:.1f}"])


def _step(about: float) -> float:
    """A round number near this one: 1, 2, 2.5 or 5 times a power of ten."""
    power = 1.0
    while power * 10 <= about:
        power *= 10
    while power > about:
        power /= 10
    return next((power * times for times in (1, 2, 2.5, 5, 10) if power * times >= about * 0.999), power * 10)


_SPANS = (10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, 86400)


def _ticks(end: float) -> Iterable[float]:
    span = next((span for span in _SPANS if end / span <= 10), end / 8)
    return (span * number for number in range(int(end / span) + 1))


def _time(seconds: float, end: float) -> str:
    return f"{seconds:g} s" if end < 900 else f"{seconds / 60:g} min" if end < 14400 else f"{seconds / 3600:g} h"


def _rule(left: float, top: float, right: float, bottom: float) -> str:
    return f'<path d="M{left:.1f} {top:.1f}L{right:.1f} {bottom:.1f}" stroke="{GRID}"/>'


def _text(  # noqa: PLR0913 — as many as the element has
    left: float, top: float, words: str, *, size: int = 11, weight: str = "", anchor: str = "", colour: str = INK
) -> str:
    extra = (f' font-weight="{weight}"' if weight else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{left:.1f}" y="{top:.1f}" font-size="{size}" fill="{colour}"{extra}>{escape(words)}</text>'
