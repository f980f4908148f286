"""Draws charts as SVG: panels above each other with a common time axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from pliant.cli.output.charts.panels import (
    ChartAxis,
    ChartLine,
    ChartMark,
    ChartPanel,
    finite_segments,
    format_time_tick,
    time_ticks,
)

PANEL_WIDTH, PANEL_HEIGHT = 860, 190  # the size of one panel in pixels, including margins
LEFT_MARGIN, RIGHT_MARGIN, TOP_MARGIN, BOTTOM_MARGIN = 58, 150, 30, 28
LEGEND_ROW_HEIGHT = 16
MAX_LEGEND_ENTRIES = 9  # the most legend entries that fit beside a panel
TEXT_COLOUR, AXIS_COLOUR, GRID_COLOUR, MARK_COLOUR = "#24292f", "#57606a", "#d8dee4", "#cf222e"
LINE_COLOURS = (
    "#0969da", "#cf222e", "#1a7f37", "#9a6700", "#8250df", "#bf3989", "#1b7c83", "#57606a", "#bc4c00", "#4c2889",
)  # fmt: skip
FONT_FAMILY = "DejaVu Sans,Verdana,Helvetica,Arial,sans-serif"


@dataclass(frozen=True, slots=True)
class _PanelFrame:
    """Where a panel is drawn."""

    top: int
    end: float
    axis: ChartAxis

    @property
    def right(self) -> int:
        return PANEL_WIDTH - RIGHT_MARGIN

    @property
    def bottom(self) -> int:
        return self.top + PANEL_HEIGHT - BOTTOM_MARGIN

    def to_x(self, time: float) -> float:
        return LEFT_MARGIN + (self.right - LEFT_MARGIN) * time / self.end

    def to_y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top - TOP_MARGIN) * self.axis.fraction(value)


def render_svg(panels: Sequence[ChartPanel], title: str, end: float, marks: Sequence[ChartMark] = ()) -> str:
    """Draw all panels, one below the other."""
    height = len(panels) * PANEL_HEIGHT + TOP_MARGIN
    parts = [_render_text(12, 21, title, size=15, weight="bold")]
    parts += [
        _render_panel(
            panel, _PanelFrame(TOP_MARGIN + index * PANEL_HEIGHT, end or 1.0, ChartAxis.for_panel(panel)), marks
        )
        for index, panel in enumerate(panels)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {PANEL_WIDTH} {height}" width="{PANEL_WIDTH}" '
        f'height="{height}" role="img" aria-label="{escape(title)}" font-family="{FONT_FAMILY}">\n'
        f'<rect width="{PANEL_WIDTH}" height="{height}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _render_panel(panel: ChartPanel, frame: _PanelFrame, marks: Sequence[ChartMark]) -> str:
    parts = [
        _render_text(LEFT_MARGIN, frame.top + 20, panel.title, size=12, weight="bold"),
        *_render_axes(panel, frame),
    ]
    for mark in marks:
        x = frame.to_x(mark.time)
        parts.append(
            f'<path d="M{x:.1f} {frame.top + TOP_MARGIN}V{frame.bottom}" stroke="{MARK_COLOUR}" stroke-dasharray="3 3">'
            f"<title>{escape(mark.text)}</title></path>"
        )
    for index, line in enumerate(panel.lines):
        colour = LINE_COLOURS[index % len(LINE_COLOURS)]
        parts.append(f'<path d="{_line_path(panel, line, frame)}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    return "\n".join([*parts, *_render_legend(panel, frame.top)])


def _render_axes(panel: ChartPanel, frame: _PanelFrame) -> Iterable[str]:
    for value in frame.axis.ticks:
        y = frame.to_y(value)
        yield _render_line(LEFT_MARGIN, y, frame.right, y)
        yield _render_text(LEFT_MARGIN - 6, y + 4, f"{value:g}{panel.unit}", anchor="end", colour=AXIS_COLOUR)
    for time in time_ticks(frame.end):
        x = frame.to_x(time)
        yield _render_line(x, frame.bottom, x, frame.bottom + 4)
        label = format_time_tick(time, frame.end)
        yield _render_text(x, frame.bottom + 16, label, anchor="middle", colour=AXIS_COLOUR)


def _line_path(panel: ChartPanel, line: ChartLine, frame: _PanelFrame) -> str:
    draw = _step_path if panel.is_stepped else _straight_path
    segments = finite_segments(line)
    return "".join(draw([(frame.to_x(time), frame.to_y(value)) for time, value in segment]) for segment in segments)


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


def _straight_path(points: Sequence[tuple[float, float]]) -> str:
    """Return a path that connects the points; a single point becomes a dot."""
    (x, y), *rest = points
    return f"M{x:.1f} {y:.1f}" + ("".join(f"L{x:.1f} {y:.1f}" for x, y in rest) or "h1")


def _render_line(left: float, top: float, right: float, bottom: float) -> str:
    return f'<path d="M{left:.1f} {top:.1f}L{right:.1f} {bottom:.1f}" stroke="{GRID_COLOUR}"/>'


def _render_text(  # noqa: PLR0913
    left: float, top: float, text: str, *, size: int = 11, weight: str = "", anchor: str = "", colour: str = TEXT_COLOUR
) -> str:
    extra = (f' font-weight="{weight}"' if weight else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{left:.1f}" y="{top:.1f}" font-size="{size}" fill="{colour}"{extra}>{escape(text)}</text>'
