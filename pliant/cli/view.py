"""Shows a run as plain lines: logs on the standard output, everything else on the standard error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TextIO

from pliant.cli.board import GroupLine
from pliant.cli.durations import duration_text
from pliant.cli.streams import silence
from pliant.model.state import FINAL, Phase

LOSS = "goes on although"
"""How a message begins that tells of members which a job does without."""


class View(Protocol):
    """Where a run is shown."""

    def open(self) -> None:
        """Begin."""

    def expect(self, speakers: Iterable[str]) -> None:
        """Make room for the names that will stand before log lines."""

    def log(self, speaker: str, line: str) -> None:
        """Show one line that a member wrote."""

    def note(self, text: str) -> None:
        """Say something that happened once."""

    def show(self, groups: Sequence[GroupLine]) -> None:
        """Show where the groups stand now."""

    def close(self) -> None:
        """Write out what is still held back; nothing moves afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How much a person wants to see."""

    logs: bool = True
    notes: bool = True


class PlainView:
    """Lines for files, pipes and CI: nothing is ever painted over."""

    def __init__(self, out: TextIO, err: TextIO, wishes: Wishes, on_hangup: Callable[[], None]) -> None:
        self._out = out
        self._err = err
        self._wishes = wishes
        self._on_hangup = on_hangup
        self._width = 0
        self._told: dict[str, str] = {}
        self._began = asyncio.get_running_loop().time()
        self._is_flushing = False

    def open(self) -> None:
        """Begin; there is nothing to prepare."""

    def expect(self, speakers: Iterable[str]) -> None:
        """Make room for the names that will stand before log lines."""
        self._width = max([self._width, *map(len, speakers)])

    def log(self, speaker: str, line: str) -> None:
        """Show one line that a member wrote."""
        if self._wishes.logs:
            self._write(self._out, f"{speaker:<{self._width}} │ {line}\n")

    def note(self, text: str) -> None:
        """Say something that happened once."""
        if self._wishes.notes:
            self._flush()
            self._write(self._err, f"{text}\n")

    def show(self, groups: Sequence[GroupLine]) -> None:
        """Say where a job stands when its phase has changed; the end of an only job is left to the verdict."""
        jobs = dict.fromkeys(group.job for group in groups)
        for job in jobs:
            mine = [group for group in groups if group.job == job]
            phase = " and ".join(dict.fromkeys(group.phase for group in mine))
            # Each restart is news, though the phase stays the same, and so is each member that is lost for good.
            is_news = phase == Phase.RESTARTING or mine[0].message.startswith(LOSS)
            news = f"{phase}{mine[0].message}" if is_news else phase
            is_last_word = len(jobs) == 1 and phase in FINAL
            if self._told.get(job) != news and not is_last_word:
                self._told[job] = news
                elapsed = timedelta(seconds=asyncio.get_running_loop().time() - self._began)
                self.note(phase_line(job, phase, mine, elapsed))

    def close(self) -> None:
        """Write out what is still held back."""
        self._flush()

    def _write(self, stream: TextIO, text: str) -> None:
        self._attempt(stream, lambda: stream.write(text))
        if not self._is_flushing:
            # Once per turn of the loop: a thousand lines that arrive together are one write.
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        for stream in (self._out, self._err):
            self._attempt(stream, stream.flush)

    def _attempt(self, stream: TextIO, output: Callable[[], object]) -> None:
        """Write; without a reader the run ends, but a full disk must not cost anybody their training."""
        try:
            output()
        except BrokenPipeError:
            self._on_hangup()
        except OSError as error:
            silence(stream)
            if stream is self._out:
                self.note(
                    f"! nothing more can be written to the standard output: {error.strerror}; the run goes on"
                )


def phase_line(job: str, phase: str, groups: Sequence[GroupLine], elapsed: timedelta) -> str:
    """A job's phase in one line: `[1.2s] bert: Running, worker 2/2`."""
    counts = ", ".join(f"{group.group} {group.count}" for group in groups)
    message = next((group.message for group in groups if group.message), "")
    return f"[{duration_text(elapsed)}] {job}: {phase}, {counts}{f' ({message})' if message else ''}"
