"""Shows a run as plain lines: logs on the standard output, everything else on the standard error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TextIO

from pliant.cli.durations import format_duration
from pliant.cli.local.run_state import GroupStatusLine
from pliant.cli.output.streams import redirect_to_devnull
from pliant.model.state import FINAL_PHASES, JobPhase

LOST_REPLICA_PREFIX = "running with failed replicas:"
"""How a message begins that tells of members which a job does without."""


class RunView(Protocol):
    """Where a run is shown."""

    def open(self) -> None:
        """Begin."""

    def reserve_prefixes(self, prefixes: Iterable[str]) -> None:
        """Make room for the names that will stand before log lines."""

    def log(self, prefix: str, line: str) -> None:
        """Show one line that a member wrote."""

    def note(self, text: str) -> None:
        """Say something that happened once."""

    def show(self, groups: Sequence[GroupStatusLine]) -> None:
        """Show where the groups stand now."""

    def close(self) -> None:
        """Write out what is still held back; nothing moves afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """How much a person wants to see."""

    show_logs: bool = True
    show_notes: bool = True


class PlainView:
    """Lines for files, pipes and CI: nothing is ever painted over."""

    def __init__(self, out: TextIO, err: TextIO, options: OutputOptions, on_hangup: Callable[[], None]) -> None:
        self._out = out
        self._err = err
        self._options = options
        self._on_hangup = on_hangup
        self._width = 0
        self._shown_phases: dict[str, str] = {}
        self._started_at = asyncio.get_running_loop().time()
        self._is_flushing = False

    def open(self) -> None:
        """Begin; there is nothing to prepare."""

    def reserve_prefixes(self, prefixes: Iterable[str]) -> None:
        """Make room for the names that will stand before log lines."""
        self._width = max([self._width, *map(len, prefixes)])

    def log(self, prefix: str, line: str) -> None:
        """Show one line that a member wrote."""
        if self._options.show_logs:
            self._write(self._out, f"{prefix:<{self._width}} │ {line}\n")

    def note(self, text: str) -> None:
        """Say something that happened once."""
        if self._options.show_notes:
            self._flush()
            self._write(self._err, f"{text}\n")

    def show(self, groups: Sequence[GroupStatusLine]) -> None:
        """Say where a job stands when its phase has changed; the end of an only job is left to the verdict."""
        jobs = dict.fromkeys(group.job for group in groups)
        for job in jobs:
            mine = [group for group in groups if group.job == job]
            phase = " and ".join(dict.fromkeys(group.phase for group in mine))
            # Each restart is news, though the phase stays the same, and so is each member that is lost for good.
            is_news = phase == JobPhase.RESTARTING or mine[0].message.startswith(LOST_REPLICA_PREFIX)
            news = f"{phase}{mine[0].message}" if is_news else phase
            is_last_word = len(jobs) == 1 and phase in FINAL_PHASES
            if self._shown_phases.get(job) != news and not is_last_word:
                self._shown_phases[job] = news
                elapsed = timedelta(seconds=asyncio.get_running_loop().time() - self._started_at)
                self.note(format_phase_line(job, phase, mine, elapsed))

    def close(self) -> None:
        """Write out what is still held back."""
        self._flush()

    def _write(self, stream: TextIO, text: str) -> None:
        self._try_write(stream, lambda: stream.write(text))
        if not self._is_flushing:
            # Once per turn of the loop: a thousand lines that arrive together are one write.
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        for stream in (self._out, self._err):
            self._try_write(stream, stream.flush)

    def _try_write(self, stream: TextIO, write: Callable[[], object]) -> None:
        """Write; without a reader the run ends, but a full disk must not cost anybody their training."""
        try:
            write()
        except BrokenPipeError:
            self._on_hangup()
        except OSError as error:
            redirect_to_devnull(stream)
            if stream is self._out:
                self.note(f"! nothing more can be written to the standard output: {error.strerror}; the run goes on")


def format_phase_line(job_name: str, phase: str, groups: Sequence[GroupStatusLine], elapsed: timedelta) -> str:
    """A job's phase in one line: `[1.2s] bert: Running, worker 2/2`."""
    counts = ", ".join(f"{group.group} {group.ready_text}" for group in groups)
    message = next((group.message for group in groups if group.message), "")
    return f"[{format_duration(elapsed)}] {job_name}: {phase}, {counts}{f' ({message})' if message else ''}"
