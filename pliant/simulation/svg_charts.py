"""Renders simulation results as SVG charts: utilization, pending pods, fairness and job sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from pliant.simulation.run import SimulationResult

PANEL_WIDTH, PANEL_HEIGHT = 860, 190  # the size of one panel in pixels, including margins
LEFT_MARGIN, RIGHT_MARGIN, TOP_MARGIN, BOTTOM_MARGIN = 58, 150, 30, 28
LEGEND_ROW_HEIGHT = 16
MAX_LEGEND_ENTRIES = 9  # the most legend entries that fit beside a panel
TEXT_COLOUR, AXIS_COLOUR, GRID_COLOUR = "#24292f", "#57606a", "#d8dee4"
LINE_COLOURS = (
    "#0969da", "#cf222e", "#1a7f37", "#9a6700", "#8250df", "#bf3989", "#1b7c83", "#57606a", "#bc4c00", "#4c2889",
)  # fmt: skip
FONT_FAMILY = "DejaVu Sans,Verdana,Helvetica,Arial,sans-serif"


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


def render_svg(results: Sequence[SimulationResult], title: str) -> str:
    """Render all panels, one below the other: first the comparison of policies, then job sizes under each policy."""
    panels = [
        *_comparison_panels(results),
        *(_job_size_panel(result) for result in results if result.series.running_by_job),
    ]
    end = max((result.series.times[-1] for result in results), default=0.0) or 1.0
    height = len(panels) * PANEL_HEIGHT + TOP_MARGIN
    parts = [_render_text(12, 21, title, size=15, weight="bold")]
    parts += [_render_panel(panel, TOP_MARGIN + index * PANEL_HEIGHT, end) for index, panel in enumerate(panels)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {PANEL_WIDTH} {height}" width="{PANEL_WIDTH}" '
        f'height="{height}" role="img" aria-label="{escape(title)}" font-family="{FONT_FAMILY}">\n'
        f'<rect width="{PANEL_WIDTH}" height="{height}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _comparison_panels(results: Sequence[SimulationResult]) -> list[ChartPanel]:
    def lines(values: Iterable[Sequence[float]]) -> tuple[ChartLine, ...]:
        return tuple(
            ChartLine(name=result.summary.policy, times=result.series.times, values=list(row))
            for result, row in zip(results, values, strict=True)
        )

    runs = [result.series for result in results]
    utilization = lines([fraction * 100 for fraction in run.cpu_utilization] for run in runs)
    return [
        ChartPanel(title="CPU utilization", lines=utilization, unit=" %", min_axis_max=100.0),
        ChartPanel(title="pending pods", lines=lines(run.pending_pods for run in runs), min_axis_max=1.0),
        ChartPanel(title="fairness (Jain’s index)", lines=lines(run.fairness for run in runs), min_axis_max=1.0),
    ]


def _job_size_panel(result: SimulationResult) -> ChartPanel:
    series = result.series
    lines = tuple(
        ChartLine(name=name, times=series.times[series.first_sample_by_job[name] :], values=counts)
        for name, counts in series.running_by_job.items()
    )
    return ChartPanel(title=f"running replicas by job, policy {result.summary.policy}", lines=lines, min_axis_max=1.0)


def _render_panel(panel: ChartPanel, top: int, end: float) -> str:
    highest = max((max(line.values) for line in panel.lines if line.values), default=0.0)
    step = _round_tick_step(max(highest, panel.min_axis_max) / 4)
    axis_max = step * max(1, -(-max(highest, panel.min_axis_max) // step))
    right, bottom = PANEL_WIDTH - RIGHT_MARGIN, top + PANEL_HEIGHT - BOTTOM_MARGIN

    def to_x(time: float) -> float:
        return LEFT_MARGIN + (right - LEFT_MARGIN) * time / end

    def to_y(value: float) -> float:
        return bottom - (bottom - top - TOP_MARGIN) * value / axis_max

    parts = [_render_text(LEFT_MARGIN, top + 20, panel.title, size=12, weight="bold")]
    for index in range(round(axis_max / step) + 1):
        value = index * step
        parts.append(_render_line(LEFT_MARGIN, to_y(value), right, to_y(value)))
        label = f"{value:g}{panel.unit}"
        parts.append(_render_text(LEFT_MARGIN - 6, to_y(value) + 4, label, anchor="end", colour=AXIS_COLOUR))
    for time in _time_ticks(end):
        parts.append(_render_line(to_x(time), bottom, to_x(time), bottom + 4))
        label = _format_tick(time, end)
        parts.append(_render_text(to_x(time), bottom + 16, label, anchor="middle", colour=AXIS_COLOUR))
    for index, line in enumerate(panel.lines):
        colour = LINE_COLOURS[index % len(LINE_COLOURS)]
        points = [(to_x(time), to_y(value)) for time, value in zip(line.times, line.values, strict=True)]
        parts.append(f'<path d="{_step_path(points)}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    return "\n".join([*parts, *_render_legend(panel, top)])


def _render_legend(panel: ChartPanel, top: int) -> Iterable[str]:
    listed = panel.lines if len(panel.lines) <= MAX_LEGEND_ENTRIES else panel.lines[: MAX_LEGEND_ENTRIES - 1]
    left = PANEL_WIDTH - RIGHT_MARGIN + 14
    for index, line in enumerate(listed):
        height = top + TOP_MARGIN + 8 + index * LEGEND_ROW_HEIGHT
        colour = LINE_COLOURS[index % len(LINE_COLOURS)]
        yield f'<rect x="{left}" y="{height - 8}" width="12" height="4" fill="{colour}"/>'
        yield _render_text(left + 18, height - 1, line.name)
    if len(listed) < len(panel.lines):
        height = top + TOP_MARGIN + 8 + len(listed) * LEGEND_ROW_HEIGHT
        yield _render_text(left + 18, height - 1, f"and {len(panel.lines) - len(listed)} more", colour=AXIS_COLOUR)


def _step_path(points: Sequence[tuple[float, float]]) -> str:
    """Return a path that holds each value until the next; points without a change are left out."""
    if not points:
        return ""
    (x, y), *rest = points
    commands, current_y = [f"M{x:.1f} {y:.1f}"], y
    for x, y in rest:
        if y != current_y:
            commands.append(f"H{x:.1f}V{y:.1f}")
            current_y = y
    return "".join([*commands, f"H{points[-1][0]:.1f}"])


def _round_tick_step(target: float) -> float:
    """Return a round number near the target: 1, 2, 2.5 or 5 times a power of ten."""
    power = 1.0
    while power * 10 <= target:
        power *= 10
    while power > target:
        power /= 10
    return next((power * times for times in (1, 2, 2.5, 5, 10) if power * times >= target * 0.999), power * 10)


_TICK_SPANS = (10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, 86400)


def _time_ticks(end: float) -> Iterable[float]:
    span = next((span for span in _TICK_SPANS if end / span <= 10), end / 8)
    return (span * index for index in range(int(end / span) + 1))


def _format_tick(seconds: float, end: float) -> str:
    return f"{seconds:g} s" if end < 900 else f"{seconds / 60:g} min" if end < 14400 else f"{seconds / 3600:g} h"


def _render_line(left: float, top: float, right: float, bottom: float) -> str:
    return f'<path d="M{left:.1f} {top:.1f}L{right:.1f} {bottom:.1f}" stroke="{GRID_COLOUR}"/>'


def _render_text(  # noqa: PLR0913
    left: float, top: float, text: str, *, size: int = 11, weight: str = "", anchor: str = "", colour: str = TEXT_COLOUR
) -> str:
    extra = (f' font-weight="{weight}"' if weight else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{left:.1f}" y="{top:.1f}" font-size="{size}" fill="{colour}"{extra}>{escape(text)}</text>'
