"""Shows a run on a terminal: log lines scroll by, the groups stand below them."""

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
from pliant.cli.output.job_summary import ALL_RUNNING_MESSAGE
from pliant.cli.output.log_lines import LogPrefixes
from pliant.cli.output.progress import BAR_EMPTY, GroupProgress, render_bar
from pliant.cli.output.run_view import OutputOptions
from pliant.cli.output.style import TerminalStyle

REPAINT_INTERVAL = 0.04
"""Seconds between repaints when things move: what arrives meanwhile is painted together."""
IDLE_REPAINT_INTERVAL = 1.0
"""Seconds between repaints when nothing moves: only the clock does."""

NOTE_COLOUR = 33
MAX_BAR_WIDTH, MIN_BAR_WIDTH = 20, 5
"""Characters of a bar; where there is room for fewer than a few there is none."""
UNLIMITED_WIDTH = 1000
CTRL_C_COLUMNS = 2
"""Columns kept free at the end of lines, where terminals show a Ctrl-C: it must not begin a line of its own."""
RESERVED_ROWS = 4
"""Rows that are kept for logs and the rule: what is taller than the terminal cannot be painted over."""
PHASE_COLOURS = {
    "Running": "green",
    "Succeeded": "green",
    "Succeed": "green",
    "Failed": "red",
    "NodeFail": "red",
    "Timeout": "red",
    "Preempted": "red",
}


class LiveView:
    """Paints at most once a frame, and only when something has changed or a second has passed."""

    def __init__(self, out: TextIO, options: OutputOptions, on_hangup: Callable[[], None]) -> None:
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
        """Take over the lower end of the terminal."""
        self._live.start()
        self._repaint()

    def reserve_prefixes(self, prefixes: Iterable[str]) -> None:
        """Make room for the names that will stand before log lines."""
        self._prefixes.reserve(prefixes)

    def log(self, prefix: str, line: str) -> None:
        """Show one line that a member wrote."""
        if self._options.show_logs:
            self._queue_line(self._prefixes.prefix_line(prefix, line))

    def note(self, text: str) -> None:
        """Say something that happened once."""
        if self._options.show_notes:
            self._queue_line(self._style.paint(NOTE_COLOUR, text))

    def show(self, groups: Sequence[GroupStatusLine]) -> None:
        """Show where the groups stand now."""
        if groups != self._groups:
            self._groups = groups
            self._schedule_repaint()

    def close(self) -> None:
        """Write out what is still held back, and take the groups away."""
        self._repaint()
        if self._timer is not None:
            self._timer.cancel()
        with suppress(OSError):
            self._live.stop()

    def _queue_line(self, text: str) -> None:
        self._queued_lines.append(text)
        self._schedule_repaint()

    def _schedule_repaint(self) -> None:
        due = max(self._loop.time(), self._painted_at + REPAINT_INTERVAL)
        if self._timer is None or self._timer.when() > due:
            self._repaint_at(due)

    def _repaint_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._repaint)

    def _repaint(self) -> None:
        held, self._queued_lines = self._queued_lines, []
        elapsed = timedelta(seconds=self._loop.time() - self._started_at)
        try:
            if held:
                self._console.print(_RawText("\n".join(held) + "\n"))
            width, height = self._console.size
            self._live.update(render_status_area(self._groups, elapsed, width, height), refresh=True)
        except OSError:  # nobody looks any more
            self._on_hangup()
        self._painted_at = self._loop.time()
        self._repaint_at(self._painted_at + IDLE_REPAINT_INTERVAL)


class _RawText:
    """Text that goes to the terminal as it is: laying out every log line would cost more than the training."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        yield Segment(self._text)


def render_status_area(groups: Sequence[GroupStatusLine], elapsed: timedelta, width: int, height: int = 1000) -> Group:
    """The lines that stay: a rule with the time that has passed, and a line per group as far as there is room."""
    clock = f" {format_duration(elapsed)} "
    rule = Text(f"──{clock}{'─' * max(width - len(clock) - 2, 0)}", style="dim")
    name_width = max((len(_group_name(line)) for line in groups), default=0)
    room = max(width - CTRL_C_COLUMNS, 1)
    lines = [render_group_line(line, name_width, room) for line in groups]
    lines = lines or [Text("starting the cluster…", style="dim")]
    most = max(height - RESERVED_ROWS, 1)
    if len(lines) > most:
        lines[most:] = [Text(f"… and {len(lines) - most} more", style="dim")]
    for line in (rule, *lines):
        line.no_wrap = True
        line.truncate(width if line is rule else room, overflow="ellipsis")
    return Group(rule, *lines)


def render_group_line(line: GroupStatusLine, name_width: int, width: int = 0) -> Text:
    """One group: `bert/worker  Running  2/2  1 restart  all replicas are running`; numbers go before the bar."""
    restarts = f"{line.restarts} restart{'' if line.restarts == 1 else 's'}" if line.restarts else ""
    message = "" if line.progress and line.message == ALL_RUNNING_MESSAGE else line.message
    text = Text.assemble(
        (f"{_group_name(line):<{name_width}}", "bold"),
        "  ",
        (f"{line.phase:<10}", PHASE_COLOURS.get(line.phase, "yellow")),
        f"  {line.ready_text}",
        (f"  {restarts}" if restarts else "", "yellow"),
    )
    if line.progress:
        room = width - text.cell_len - cell_len(message) if width else UNLIMITED_WIDTH
        text.append_text(_render_progress(line.progress, room))
    return text.append(f"  {message}" if message else "", style="dim")


def _render_progress(progress: GroupProgress, width: int) -> Text:
    """How far it said it has come, `████░░  60 %  step 120/200  loss 0.31`: the bar gets what the rest leaves."""
    share, figures = progress.fraction_done, f"  {progress}"
    if share is None:
        return Text(figures, style="cyan")
    percent = f" {share:4.0%}"
    size = min(width - len(figures) - len(percent) - 2, MAX_BAR_WIDTH)
    painted = render_bar(share, size) if size >= MIN_BAR_WIDTH else ""
    full = painted.rstrip(BAR_EMPTY)
    return Text.assemble(
        "  " if painted else "", (full, "cyan"), (painted[len(full) :], "dim cyan"), (percent + figures, "cyan")
    )


def _group_name(line: GroupStatusLine) -> str:
    return f"{line.job}/{line.group}"
