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

from pliant.cli.board import GroupLine
from pliant.cli.durations import duration_text
from pliant.cli.progress import EMPTY, Progress, bar
from pliant.cli.results import ALL_WELL
from pliant.cli.speakers import Speakers
from pliant.cli.style import Style
from pliant.cli.view import Wishes

FRAME = 0.04
"""Seconds between repaints when things move: what arrives meanwhile is painted together."""
TICK = 1.0
"""Seconds between repaints when nothing moves: only the clock does."""

NOTE_COLOUR = 33
LONGEST_BAR, SHORTEST_BAR = 20, 5
"""Characters of a bar; where there is room for fewer than a few there is none."""
WIDEST = 1000
ECHO = 2
"""Columns kept free at the end of lines, where terminals show a Ctrl-C: it must not begin a line of its own."""
BESIDE = 4
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

    def __init__(self, out: TextIO, wishes: Wishes, on_hangup: Callable[[], None]) -> None:
        self._wishes = wishes
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
        self._began = self._loop.time()
        self._style = Style.of(out)
        self._speakers = Speakers(self._style)
        self._held: list[str] = []
        self._groups: Sequence[GroupLine] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._painted_at = 0.0

    def open(self) -> None:
        """Take over the lower end of the terminal."""
        self._live.start()
        self._paint()

    def expect(self, speakers: Iterable[str]) -> None:
        """Make room for the names that will stand before log lines."""
        self._speakers.expect(speakers)

    def log(self, speaker: str, line: str) -> None:
        """Show one line that a member wrote."""
        if self._wishes.logs:
            self._hold(self._speakers.line(speaker, line))

    def note(self, text: str) -> None:
        """Say something that happened once."""
        if self._wishes.notes:
            self._hold(self._style.paint(NOTE_COLOUR, text))

    def show(self, groups: Sequence[GroupLine]) -> None:
        """Show where the groups stand now."""
        if groups != self._groups:
            self._groups = groups
            self._soon()

    def close(self) -> None:
        """Write out what is still held back, and take the groups away."""
        self._paint()
        if self._timer is not None:
            self._timer.cancel()
        with suppress(OSError):
            self._live.stop()

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._soon()

    def _soon(self) -> None:
        due = max(self._loop.time(), self._painted_at + FRAME)
        if self._timer is None or self._timer.when() > due:
            self._at(due)

    def _at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._paint)

    def _paint(self) -> None:
        held, self._held = self._held, []
        elapsed = timedelta(seconds=self._loop.time() - self._began)
        try:
            if held:
                self._console.print(_Lines("\n".join(held) + "\n"))
            width, height = self._console.size
            self._live.update(region(self._groups, elapsed, width, height), refresh=True)
        except OSError:  # nobody looks any more
            self._on_hangup()
        self._painted_at = self._loop.time()
        self._at(self._painted_at + TICK)


class _Lines:
    """Text that goes to the terminal as it is: laying out every log line would cost more than the training."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        yield Segment(self._text)


def region(groups: Sequence[GroupLine], elapsed: timedelta, width: int, height: int = 1000) -> Group:
    """The lines that stay: a rule with the time that has passed, and a line per group as far as there is room."""
    clock = f" {duration_text(elapsed)} "
    rule = Text(f"──{clock}{'─' * max(width - len(clock) - 2, 0)}", style="dim")
    name_width = max((len(_name(line)) for line in groups), default=0)
    room = max(width - ECHO, 1)
    lines = [group_text(line, name_width, room) for line in groups]
    lines = lines or [Text("starting the cluster…", style="dim")]
    most = max(height - BESIDE, 1)
    if len(lines) > most:
        lines[most:] = [Text(f"… and {len(lines) - most} more", style="dim")]
    for line in (rule, *lines):
        line.no_wrap = True
        line.truncate(width if line is rule else room, overflow="ellipsis")
    return Group(rule, *lines)


def group_text(line: GroupLine, name_width: int, width: int = 0) -> Text:
    """One group: `bert/worker  Running  2/2  1 restart  every member runs`; numbers go before the bar."""
    restarts = f"{line.restarts} restart{'' if line.restarts == 1 else 's'}" if line.restarts else ""
    message = "" if line.progress and line.message == ALL_WELL else line.message
    text = Text.assemble(
        (f"{_name(line):<{name_width}}", "bold"),
        "  ",
        (f"{line.phase:<10}", PHASE_COLOURS.get(line.phase, "yellow")),
        f"  {line.count}",
        (f"  {restarts}" if restarts else "", "yellow"),
    )
    if line.progress:
        room = width - text.cell_len - cell_len(message) if width else WIDEST
        text.append_text(_progress_text(line.progress, room))
    return text.append(f"  {message}" if message else "", style="dim")


def _progress_text(progress: Progress, room: int) -> Text:
    """How far it said it has come, `████░░  60 %  step 120/200  loss 0.31`: the bar gets what the rest leaves."""
    share, figures = progress.share, f"  {progress}"
    if share is None:
        return Text(figures, style="cyan")
    percent = f" {share:4.0%}"
    size = min(room - len(figures) - len(percent) - 2, LONGEST_BAR)
    painted = bar(share, size) if size >= SHORTEST_BAR else ""
    full = painted.rstrip(EMPTY)
    return Text.assemble(
        "  " if painted else "", (full, "cyan"), (painted[len(full) :], "dim cyan"), (percent + figures, "cyan")
    )


def _name(line: GroupLine) -> str:
    return f"{line.job}/{line.group}"
