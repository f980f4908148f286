"""Draws the history of a job: metrics, throughput and sizes, with a mark at each restart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from pliant.cli.durations import format_duration
from pliant.cli.history.job_history import JobHistory, ProgressSample, restart_text
from pliant.cli.output.charts.panels import ChartLine, ChartMark, ChartPanel
from pliant.cli.output.charts.svg import render_svg
from pliant.cli.output.charts.text import TextChartOptions, render_text_charts
from pliant.cli.output.log_lines import sanitize_line
from pliant.cli.output.table import collapse_and_truncate, truncate_to_width
from pliant.model.english import pluralize
from pliant.model.state import FINAL_PHASES

MAX_TEXT_METRICS = 2  # in the terminal, unless the user chooses others
MAX_LISTED_RESTARTS = 5
METRIC_ROWS, RATE_ROWS, SIZE_ROWS = 9, 4, 4


def chart_panels(history: JobHistory, metrics: Sequence[str]) -> list[ChartPanel]:
    """Return one panel per metric, one with the throughput and one with the sizes of the groups."""
    return [*(_metric_panel(history, metric) for metric in metrics), *_rate_panel(history), *_size_panel(history)]


def _seconds(history: JobHistory, at: datetime) -> float:
    return max((at - history.started_at).total_seconds(), 0.0)


def _duration(history: JobHistory) -> float:
    return _seconds(history, history.ended_at)


def _metric_panel(history: JobHistory, metric: str) -> ChartPanel:
    points = [(sample.at, value) for sample in history.samples if (value := sample.value(metric)) is not None]
    times, values = [_seconds(history, at) for at, _ in points], [value for _, value in points]
    finite = [value for value in values if math.isfinite(value)]
    facts = f"  {values[-1]:.4g}, from {min(finite):.4g} to {max(finite):.4g}" if finite else ""
    name = sanitize_line(metric)
    return ChartPanel(
        title=f"{name}{facts}",
        lines=(ChartLine(name=name, times=times, values=values),),
        is_stepped=False,
        starts_at_zero=False,
        text_rows=METRIC_ROWS,
    )


def _rate_panel(history: JobHistory) -> Iterator[ChartPanel]:
    rates = history.step_rates()
    measured = [each.steps_per_second for each in rates if each.steps_per_second is not None]
    if measured:
        times = [_seconds(history, each.at) for each in rates]
        values = [math.nan if each.steps_per_second is None else each.steps_per_second for each in rates]
        line = ChartLine(name="steps/s", times=times, values=values)
        title = f"steps/s  {measured[-1]:.4g}"
        yield ChartPanel(title=title, lines=(line,), is_stepped=False, text_rows=RATE_ROWS)


def _size_panel(history: JobHistory) -> Iterator[ChartPanel]:
    lines = []
    for group in dict.fromkeys(size.group for size in history.sizes):
        own = [(_seconds(history, size.at), float(size.size)) for size in history.sizes if size.group == group]
        own.append((_duration(history), own[-1][1]))
        lines.append(ChartLine(name=group, times=[time for time, _ in own], values=[value for _, value in own]))
    if lines:
        last = ", ".join(f"{line.name} {line.values[-1]:g}" for line in lines)
        yield ChartPanel(
            title=f"replicas  {last}", lines=tuple(lines), min_axis_max=1.0, min_tick_step=1.0, text_rows=SIZE_ROWS
        )


def _restart_marks(history: JobHistory) -> list[ChartMark]:
    return [
        ChartMark(time=_seconds(history, entry.at), text=sanitize_line(restart_text(entry)))
        for entry in history.restarts
    ]


def history_title(history: JobHistory) -> str:
    """Return what the charts show: `bert: Running for 5m12s, step 120, 1 restart`."""
    preposition = "after" if history.phase in FINAL_PHASES else "for"
    parts = [f"{history.phase} {preposition} {format_duration(timedelta(seconds=_duration(history)))}"]
    steps = [sample.step for sample in history.samples if sample.step is not None]
    parts += [f"step {steps[-1]}"] if steps else []
    parts += [pluralize(history.restart_count, "restart")] if history.restart_count else []
    return f"{history.name}: {', '.join(parts)}"


def render_history_text(history: JobHistory, metrics: Sequence[str], options: TextChartOptions) -> str:
    """Return the charts as text, with the restarts below."""
    style, marks = options.style, _restart_marks(history)
    lines = [style.bold(truncate_to_width(history_title(history), options.width)), ""]
    lines += render_text_charts(chart_panels(history, metrics), _duration(history), marks, options)
    lines += [""] * bool(marks)
    for mark in marks[-MAX_LISTED_RESTARTS:]:
        at = format_duration(timedelta(seconds=mark.time))
        lines.append(collapse_and_truncate(f"{options.glyphs.mark} {at}  {mark.text}", options.width))
    if (older := len(marks) - MAX_LISTED_RESTARTS) > 0:
        lines.append(f"and {pluralize(older, 'earlier restart')}: pliant describe {history.name}")
    return "\n".join(lines) + "\n"


def render_history_svg(history: JobHistory, metrics: Sequence[str]) -> str:
    panels = chart_panels(history, metrics)
    return render_svg(panels, history_title(history), _duration(history), _restart_marks(history))


def history_to_dict(history: JobHistory, metrics: Sequence[str]) -> dict[str, Any]:
    """Return the history as data for programs."""
    rates = ((each.at, each.steps_per_second) for each in history.step_rates())
    return {
        "name": history.name,
        "namespace": history.namespace,
        "kind": history.kind,
        "phase": history.phase,
        "startTime": _time_text(history.started_at),
        "endTime": _time_text(history.ended_at),
        "logOf": history.log_replica or None,
        "samples": [_sample_to_dict(sample, metrics) for sample in history.samples],
        "throughput": [
            {"time": _time_text(at), "stepsPerSecond": round(rate, 6)} for at, rate in rates if rate is not None
        ],
        "sizes": [{"time": _time_text(each.at), "group": each.group, "size": each.size} for each in history.sizes],
        "phases": [{"time": _time_text(each.at), "phase": each.reason} for each in history.phases],
        "restarts": [{"time": _time_text(each.at), "message": restart_text(each)} for each in history.restarts],
    }


def _sample_to_dict(sample: ProgressSample, metrics: Sequence[str]) -> dict[str, Any]:
    """Return a sample; numbers that JSON does not have are strings, as in reports."""
    values = {name: value for name, value in sample.metrics.items() if name in metrics}
    shown = {name: value if math.isfinite(value) else str(value) for name, value in values.items()}
    return {"time": _time_text(sample.at), "step": sample.step, "metrics": shown}


def _time_text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
