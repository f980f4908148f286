"""Draws charts with characters: panels above each other with a common time axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pliant.cli.output.charts.panels import (
    ChartAxis,
    ChartMark,
    ChartPanel,
    finite_segments,
    format_time_tick,
    time_ticks,
)
from pliant.cli.output.glyphs import Glyphs
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import truncate_to_width

MIN_CHART_WIDTH = 30
COLUMNS_PER_TIME_TICK = 14
LINE_COLOURS = (36, 33, 35, 32, 34, 31)
_BRAILLE_BASE = 0x2800
_BRAILLE_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column of the dot


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChartOptions:
    width: int  # of the whole chart, in columns
    glyphs: Glyphs
    style: TerminalStyle


def render_text_charts(
    panels: Sequence[ChartPanel], end: float, marks: Sequence[ChartMark], options: TextChartOptions
) -> list[str]:
    """Draw all panels, one below the other, and the time axis with the marks."""
    axes = [ChartAxis.for_panel(panel) for panel in panels]
    labels = [f"{tick:g}{panel.unit}" for panel, axis in zip(panels, axes, strict=True) for tick in axis.ticks]
    label_width = max(map(len, labels), default=0)
    columns = max(options.width, MIN_CHART_WIDTH) - label_width - 2
    frame = _TextFrame(
        columns, label_width, end or 1.0, options, {_to_column(mark.time, end, columns) for mark in marks}
    )
    lines: list[str] = []
    for panel, axis in zip(panels, axes, strict=True):
        lines += [*frame.render_panel(panel, axis), ""]
    return [*lines[:-1], *frame.render_time_axis()]


def _to_column(time: float, end: float, columns: int) -> int:
    return min(max(int(time / (end or 1.0) * columns), 0), columns - 1)


@dataclass(slots=True)
class _Canvas:
    """Cells of dots; each cell has the colour of the line that was drawn last."""

    columns: int
    rows: int
    dots_per_column: int
    dots_per_row: int
    bits: dict[tuple[int, int], int] = field(default_factory=dict)  # by row and column
    colours: dict[tuple[int, int], int] = field(default_factory=dict)

    def draw_line(self, start: tuple[float, float], end: tuple[float, float], colour: int) -> None:
        """Draw a line between two points of the unit square, whose origin is the lower left corner."""
        width, height = self.columns * self.dots_per_column - 1, self.rows * self.dots_per_row - 1
        (x1, y1), (x2, y2) = ((round(x * width), round((1 - y) * height)) for x, y in (start, end))
        steps = max(abs(x2 - x1), abs(y2 - y1), 1)
        for index in range(steps + 1):
            x, y = round(x1 + (x2 - x1) * index / steps), round(y1 + (y2 - y1) * index / steps)
            cell = (y // self.dots_per_row, x // self.dots_per_column)
            bit = _BRAILLE_BITS[y % self.dots_per_row][x % self.dots_per_column]
            self.bits[cell] = self.bits.get(cell, 0) | bit
            self.colours[cell] = colour


@dataclass(frozen=True, slots=True)
class _TextFrame:
    columns: int
    label_width: int
    end: float
    options: TextChartOptions
    mark_columns: set[int]

    def render_panel(self, panel: ChartPanel, axis: ChartAxis) -> Iterable[str]:
        style, glyphs = self.options.style, self.options.glyphs
        dots_per_column, dots_per_row = (2, 4) if glyphs.has_braille else (1, 1)
        canvas = _Canvas(self.columns, panel.text_rows, dots_per_column, dots_per_row)
        for index in range(len(panel.lines)):
            self._draw(canvas, panel, axis, index)
        legend = "  ".join(
            style.paint(LINE_COLOURS[index % len(LINE_COLOURS)], line.name)
            for index, line in enumerate(panel.lines)
            if len(panel.lines) > 1
        )
        yield f"{style.bold(truncate_to_width(panel.title, self.options.width))}{'  ' if legend else ''}{legend}"
        labels = _row_labels(panel, axis)
        for row in range(panel.text_rows):
            cells = "".join(self._render_cell(canvas, row, column) for column in range(self.columns)).rstrip()
            yield f"{labels.get(row, ''):>{self.label_width}} {style.dim(glyphs.vertical)}{cells}"

    def _draw(self, canvas: _Canvas, panel: ChartPanel, axis: ChartAxis, line_index: int) -> None:
        colour = LINE_COLOURS[line_index % len(LINE_COLOURS)]
        for segment in finite_segments(panel.lines[line_index]):
            points = [(min(max(time / self.end, 0.0), 1.0), axis.fraction(value)) for time, value in segment]
            canvas.draw_line(points[0], points[0], colour)
            for start, end in pairwise(points):
                corner = (end[0], start[1]) if panel.is_stepped else start
                canvas.draw_line(start, corner, colour)
                canvas.draw_line(corner, end, colour)

    def _render_cell(self, canvas: _Canvas, row: int, column: int) -> str:
        style, glyphs = self.options.style, self.options.glyphs
        bits = canvas.bits.get((row, column), 0)
        if not bits:
            return style.dim(glyphs.dashed) if column in self.mark_columns else " "
        return style.paint(canvas.colours[row, column], chr(_BRAILLE_BASE + bits) if glyphs.has_braille else "*")

    def render_time_axis(self) -> Iterable[str]:
        glyphs, style = self.options.glyphs, self.options.style
        line, labels = [glyphs.horizontal] * self.columns, [" "] * self.columns
        for time in time_ticks(self.end, max(self.columns // COLUMNS_PER_TIME_TICK, 2)):
            column, text = _to_column(time, self.end, self.columns), format_time_tick(time, self.end)
            line[column] = glyphs.tick
            if column + len(text) <= len(labels):
                labels[column : column + len(text)] = text
        for column in self.mark_columns:
            line[column] = style.red(glyphs.mark)
        indent = " " * (self.label_width + 1)
        yield f"{indent}{style.dim(glyphs.corner)}{''.join(line)}"
        yield f"{indent} {style.dim(''.join(labels).rstrip())}"


def _row_labels(panel: ChartPanel, axis: ChartAxis) -> dict[int, str]:
    """Return the labels of ticks by row; in low panels only those of both ends."""
    ticks = axis.ticks if panel.text_rows > len(axis.ticks) else [axis.low, axis.high]
    rows = {round((1 - axis.fraction(tick)) * (panel.text_rows - 1)): tick for tick in ticks}
    return {row: f"{tick:g}{panel.unit}" for row, tick in rows.items()}
