"""Shows a run on a terminal: logs scroll, the status of the groups stays at the bottom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from pliant.cli.durations import format_duration
from pliant.cli.local.run_state import GroupStatusLine
from pliant.cli.output.log_lines import LogPrefixes
from pliant.cli.output.progress import BAR_EMPTY, TrainingProgress, render_bar
from pliant.cli.output.run_view import RunOutputOptions
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import PHASE_COLOURS
from pliant.model.english import render
from pliant.model.messages import MessageReason

MIN_REPAINT_INTERVAL_SECONDS = 0.04  # seconds; changes within one interval are painted together
IDLE_REPAINT_INTERVAL_SECONDS = 1.0  # seconds; only the elapsed time changes

NOTE_COLOUR = 33
MAX_BAR_WIDTH, MIN_BAR_WIDTH = 20, 5
UNLIMITED_WIDTH = 1000
_RICH_COLOURS = {"31": "red", "32": "green", "33": "yellow", "36": "cyan"}
CTRL_C_COLUMNS = 2  # free columns where terminals echo ^C, so that it does not start a new line
ROWS_RESERVED_FOR_LOGS = 4  # rows for logs and the rule; rich cannot repaint an area taller than the terminal


class LiveRunView:
    """Repaints at most once per interval, and only after a change or to update the elapsed time."""

    def __init__(self, out: TextIO, options: RunOutputOptions, on_hangup: Callable[[], None]) -> None:
        self._options = options
        self._on_hangup = on_hangup
        self._console = Console(file=out, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._loop = asyncio.get_running_loop()
        self._started_at = self._loop.time()
        self._style = TerminalStyle.for_stream(out)
        self._prefixes = LogPrefixes(self._style)
        self._queued_lines: list[str] = []
        self._groups: Sequence[GroupStatusLine] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._painted_at = 0.0

    def open(self) -> None:
        self._live.start()
        self._repaint()

    def register_log_prefixes(self, prefixes: Iterable[str]) -> None:
        self._prefixes.register(prefixes)

    def show_log_line(self, prefix: str, line: str) -> None:
        if self._options.show_logs:
            self._queue_line(self._prefixes.prefix_line(prefix, line))

    def show_note(self, text: str) -> None:
        if self._options.show_notes:
            self._queue_line(self._style.paint(NOTE_COLOUR, text))

    def show_group_status(self, groups: Sequence[GroupStatusLine]) -> None:
        if groups != self._groups:
            self._groups = groups
            self._schedule_repaint()

    def close(self) -> None:
        self._repaint()
        if self._timer is not None:
            self._timer.cancel()
        with suppress(OSError):
            self._live.stop()

    def _queue_line(self, text: str) -> None:
        self._queued_lines.append(text)
        self._schedule_repaint()

    def _schedule_repaint(self) -> None:
        due = max(self._loop.time(), self._painted_at + MIN_REPAINT_INTERVAL_SECONDS)
        if self._timer is None or self._timer.when() > due:
            self._repaint_at(due)

    def _repaint_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._repaint)

    def _repaint(self) -> None:
        lines, self._queued_lines = self._queued_lines, []
        elapsed = timedelta(seconds=self._loop.time() - self._started_at)
        try:
            if lines:
                self._console.print(_RawText("\n".join(lines) + "\n"))
            width, height = self._console.size
            self._live.update(render_status_area(self._groups, elapsed, width, height), refresh=True)
        except OSError:  # the terminal was closed
            self._on_hangup()
        self._painted_at = self._loop.time()
        self._repaint_at(self._painted_at + IDLE_REPAINT_INTERVAL_SECONDS)


class _RawText:
    """Text that is printed unchanged: laying out every log line is expensive."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        yield Segment(self._text)


def render_status_area(groups: Sequence[GroupStatusLine], elapsed: timedelta, width: int, height: int = 1000) -> Group:
    """Render a rule with the elapsed time and as many group lines as fit."""
    clock = f" {format_duration(elapsed)} "
    rule = Text(f"──{clock}{'─' * max(width - len(clock) - 2, 0)}", style="dim")
    name_width = max((len(_group_name(line)) for line in groups), default=0)
    room = max(width - CTRL_C_COLUMNS, 1)
    lines = [render_group_line(line, name_width, room) for line in groups]
    lines = lines or [Text("starting the cluster…", style="dim")]
    max_lines = max(height - ROWS_RESERVED_FOR_LOGS, 1)
    if len(lines) > max_lines:
        lines[max_lines:] = [Text(f"… and {len(lines) - max_lines} more", style="dim")]
    for line in (rule, *lines):
        line.no_wrap = True
        line.truncate(width if line is rule else room, overflow="ellipsis")
    return Group(rule, *lines)


def render_group_line(line: GroupStatusLine, name_width: int, width: int = 0) -> Text:
    """Render a group: `bert/worker  Running  2/2  1 restart  all replicas are running`."""
    restarts = f"{line.restarts} restart{'' if line.restarts == 1 else 's'}" if line.restarts else ""
    is_all_running = line.message.reason == MessageReason.ALL_REPLICAS_RUNNING
    message = "" if line.progress and is_all_running else render(line.message)
    text = Text.assemble(
        (f"{_group_name(line):<{name_width}}", "bold"),
        "  ",
        (f"{line.phase:<10}", _RICH_COLOURS[PHASE_COLOURS.get(line.phase, "33")]),
        f"  {line.replica_counts_text}",
        (f"  {restarts}" if restarts else "", "yellow"),
    )
    if line.progress:
        room = width - text.cell_len - cell_len(message) if width else UNLIMITED_WIDTH
        text.append_text(_render_progress(line.progress, room))
    return text.append(f"  {message}" if message else "", style="dim")


def _render_progress(progress: TrainingProgress, width: int) -> Text:
    """Render `████░░  60 %  step 120/200  loss 0.31`; the bar takes the remaining width."""
    fraction, text = progress.fraction_done, f"  {progress}"
    if fraction is None:
        return Text(text, style="cyan")
    percent = f" {fraction:4.0%}"
    bar_width = min(width - len(text) - len(percent) - 2, MAX_BAR_WIDTH)
    bar = render_bar(fraction, bar_width) if bar_width >= MIN_BAR_WIDTH else ""
    full = bar.rstrip(BAR_EMPTY)
    return Text.assemble("  " if bar else "", (full, "cyan"), (bar[len(full) :], "dim cyan"), (percent + text, "cyan"))


def _group_name(line: GroupStatusLine) -> str:
    return f"{line.job}/{line.group}"
