"""Shows a run on a terminal: logs scroll, the status of the groups stays at the bottom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TextIO

from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.segment import Segment

from pliant.cli.local.run_state import GroupStatusLine
from pliant.cli.output.glyphs import Glyphs
from pliant.cli.output.log_lines import LogPrefixes
from pliant.cli.output.run_view import RunOutputOptions
from pliant.cli.output.status_area import render_status_area
from pliant.cli.output.style import TerminalStyle

MIN_REPAINT_INTERVAL_SECONDS = 0.04  # seconds; changes within one interval are painted together
IDLE_REPAINT_INTERVAL_SECONDS = 1.0  # seconds; only the elapsed time changes

NOTE_COLOUR = 33


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
        self._glyphs = Glyphs.for_stream(out)
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
            area = render_status_area(self._groups, elapsed, width, height, self._glyphs)
            self._live.update(area, refresh=True)
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
