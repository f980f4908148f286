"""Renders the status area of a run: a line for each job, and lines for groups that differ from their job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from pliant.cli.durations import format_duration
from pliant.cli.local.progress_trend import MAX_TREND_VALUES, ProgressTrend
from pliant.cli.local.run_state import GroupStatusLine
from pliant.cli.output.glyphs import UNICODE_GLYPHS, Glyphs, render_bar, render_sparkline
from pliant.cli.output.progress import TrainingProgress, format_metric
from pliant.cli.output.table import PHASE_COLOURS
from pliant.model.english import render
from pliant.model.messages import MessageReason
from pliant.model.state import JobPhase

MAX_BAR_WIDTH, MIN_BAR_WIDTH = 20, 5
MIN_SPARKLINE_WIDTH = 8
MAX_ETA_SECONDS = 365 * 86400.0  # an ETA beyond it is an accident of a slow start
UNLIMITED_WIDTH = 1000
_RICH_COLOURS = {"31": "red", "32": "green", "33": "yellow", "36": "cyan"}
CTRL_C_COLUMNS = 2  # free columns where terminals echo ^C, so that it does not start a new line
ROWS_RESERVED_FOR_LOGS = 4  # rows for logs and the rule; rich cannot repaint an area taller than the terminal


def render_status_area(
    groups: Sequence[GroupStatusLine],
    elapsed: timedelta,
    width: int,
    height: int = 1000,
    glyphs: Glyphs = UNICODE_GLYPHS,
) -> Group:
    """Render a rule with the elapsed time and as many lines as fit."""
    clock = f" {format_duration(elapsed)} "
    rule = Text(f"──{clock}{'─' * max(width - len(clock) - 2, 0)}", style="dim")
    summarized = list(summarize_jobs(groups))
    name_width = max((len(_line_name(line)) for line in summarized), default=0)
    room = max(width - CTRL_C_COLUMNS, 1)
    lines = [render_group_line(line, name_width, room, glyphs) for line in summarized]
    lines = lines or [Text("starting the cluster…", style="dim")]
    max_lines = max(height - ROWS_RESERVED_FOR_LOGS, 1)
    if len(lines) > max_lines:
        lines[max_lines:] = [Text(f"… and {len(lines) - max_lines} more", style="dim")]
    for line in (rule, *lines):
        line.no_wrap = True
        line.truncate(width if line is rule else room, overflow="ellipsis")
    return Group(rule, *lines)


def summarize_jobs(groups: Sequence[GroupStatusLine]) -> Iterator[GroupStatusLine]:
    """Yield one line per job, and one for each other group of which not all replicas run or have succeeded."""
    for own in _split_by_job(groups):
        reporting = [line for line in own if line.progress is not None]
        lead = next(iter((*reporting, *(line for line in own if line.is_complete), *own)))
        complete = [line for line in own if line is not lead and line.is_complete]
        if complete:
            counts = (f"{line.group} {line.replica_counts_text}" for line in (lead, *complete))
            restarts = sum(line.restarts for line in (lead, *complete))
            yield replace(lead, group="", restarts=restarts, summary=", ".join(counts))
        else:
            yield lead
        yield from (line for line in own if line is not lead and not line.is_complete)


def _split_by_job(groups: Sequence[GroupStatusLine]) -> list[list[GroupStatusLine]]:
    """Return the groups of each job; jobs of several namespaces may have the same name."""
    jobs: list[list[GroupStatusLine]] = []
    for line in groups:
        is_next_job = not jobs or jobs[-1][0].job != line.job or line.group in (other.group for other in jobs[-1])
        if is_next_job:
            jobs.append([])
        jobs[-1].append(line)
    return jobs


def render_group_line(line: GroupStatusLine, name_width: int, width: int = 0, glyphs: Glyphs = UNICODE_GLYPHS) -> Text:
    """Render a line: `bert/worker  Running  2/2  1 restart  all replicas are running`."""
    restarts = f"{line.restarts} restart{'' if line.restarts == 1 else 's'}" if line.restarts else ""
    is_all_running = line.message.reason == MessageReason.ALL_REPLICAS_RUNNING
    message = "" if line.progress and is_all_running else render(line.message)
    tail = f"  {message}" if message else ""
    text = Text.assemble(
        (f"{_line_name(line):<{name_width}}", "bold"),
        "  ",
        (f"{line.phase:<10}", _RICH_COLOURS[PHASE_COLOURS.get(line.phase, "33")]),
        f"  {line.summary or line.replica_counts_text}",
        (f"  {restarts}" if restarts else "", "yellow"),
    )
    if line.progress:
        room = width - text.cell_len - cell_len(tail) if width else UNLIMITED_WIDTH
        trend = line.trend if line.phase == JobPhase.RUNNING else ProgressTrend(line.trend.values)
        text.append_text(_render_progress(line.progress, trend, room, glyphs))
    return text.append(tail, style="dim")


def _render_progress(progress: TrainingProgress, trend: ProgressTrend, width: int, glyphs: Glyphs) -> Text:
    """Render `████░░  60 %  step 120/200  loss 0.31 █▅▂▁  4.1 steps/s  ETA 20s`.

    A narrow terminal shortens the bar, then the sparkline, and omits the rate, the sparkline, the bar and the ETA.
    """
    fraction, numbers = progress.fraction_done, f"  {progress}"
    percent = "" if fraction is None else f" {fraction:4.0%}"
    room = width - len(percent) - len(numbers)
    bar_room = 0 if fraction is None else MIN_BAR_WIDTH + 2
    spark_room = MIN_SPARKLINE_WIDTH + 1 if len(trend.values) > 1 else 0
    times = eta if len(eta := _eta_text(trend)) <= room else ""
    room -= len(times)
    rate = _rate_text(trend)
    if len(rate) + bar_room + spark_room <= room or len(rate) <= room < bar_room + spark_room:
        times, room = rate + times, room - len(rate)
    sparkline = _fit_sparkline(trend, room - bar_room, glyphs)
    bar_width = min(room - len(sparkline) - 2, MAX_BAR_WIDTH)
    bar = render_bar(fraction, bar_width, glyphs) if fraction is not None and bar_width >= MIN_BAR_WIDTH else ""
    full = bar.rstrip(glyphs.bar_empty)
    metric = f"  {format_metric(progress.main_metric)}" if progress.main_metric else ""
    before, metric, after = numbers.partition(metric) if metric else (numbers, "", "")
    return Text.assemble(
        "  " if bar else "", (full, "cyan"), (bar[len(full) :], "dim cyan"),
        (f"{percent}{before}{metric}{sparkline}{after}", "cyan"), (times, "dim"),
    )  # fmt: skip


def _fit_sparkline(trend: ProgressTrend, room: int, glyphs: Glyphs) -> str:
    """Return the sparkline of as many of the latest values as fit; empty if these are too few."""
    width = min(room - 1, MAX_TREND_VALUES)
    if len(trend.values) < 2 or width < MIN_SPARKLINE_WIDTH:  # a few characters show no trend
        return ""
    return f" {render_sparkline(trend.values[-width:], glyphs)}"


def _rate_text(trend: ProgressTrend) -> str:
    rate = trend.steps_per_second
    if rate is None:
        return ""
    return f"  {_three_digits(rate)} steps/s" if rate >= 1 else f"  {_three_digits(1 / rate)} s/step"


def _three_digits(number: float) -> str:
    """Format a number of at least 1 with a constant width, so that the line does not jump."""
    return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f}"


def _eta_text(trend: ProgressTrend) -> str:
    left = trend.seconds_left
    return f"  ETA {format_duration(timedelta(seconds=left))}" if left is not None and left < MAX_ETA_SECONDS else ""


def _line_name(line: GroupStatusLine) -> str:
    return f"{line.job}/{line.group}" if line.group else line.job
