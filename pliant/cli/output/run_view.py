"""Shows a run as plain lines: logs on standard output, everything else on standard error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TextIO

from pliant.cli.durations import format_duration
from pliant.cli.local.run_state import GroupStatusLine
from pliant.cli.output.streams import redirect_to_devnull
from pliant.model.english import render
from pliant.model.messages import MessageReason
from pliant.model.state import FINAL_PHASES, JobPhase


class RunView(Protocol):
    """Where a run is shown."""

    def open(self) -> None: ...
    def register_log_prefixes(self, prefixes: Iterable[str]) -> None: ...
    def show_log_line(self, prefix: str, line: str) -> None: ...
    def show_note(self, text: str) -> None: ...
    def show_group_status(self, groups: Sequence[GroupStatusLine]) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutputOptions:
    show_logs: bool = True
    show_notes: bool = True


class PlainRunView:
    """Writes lines for files, pipes and CI."""

    def __init__(self, out: TextIO, err: TextIO, options: RunOutputOptions, on_hangup: Callable[[], None]) -> None:
        self._out = out
        self._err = err
        self._options = options
        self._on_hangup = on_hangup
        self._width = 0
        self._shown_phases: dict[str, str] = {}
        self._started_at = asyncio.get_running_loop().time()
        self._is_flushing = False

    def open(self) -> None: ...

    def register_log_prefixes(self, prefixes: Iterable[str]) -> None:
        self._width = max([self._width, *map(len, prefixes)])

    def show_log_line(self, prefix: str, line: str) -> None:
        if self._options.show_logs:
            self._write(self._out, f"{prefix:<{self._width}} │ {line}\n")

    def show_note(self, text: str) -> None:
        if self._options.show_notes:
            self._flush()
            self._write(self._err, f"{text}\n")

    def show_group_status(self, groups: Sequence[GroupStatusLine]) -> None:
        """Print the status of a job when its phase has changed, except the final phase of the only job."""
        jobs = dict.fromkeys(group.job for group in groups)
        for job in jobs:
            own = [group for group in groups if group.job == job]
            phase = own[0].phase
            # Every restart, every replica that failed for good, and what cannot be created is shown, though the phase
            # stays the same.
            is_shown = phase == JobPhase.RESTARTING or own[0].message.reason == MessageReason.FAILED_CREATE
            status = f"{phase} {sum(group.failed for group in own)} {render(own[0].message) if is_shown else ''}"
            is_result = len(jobs) == 1 and phase in FINAL_PHASES
            if self._shown_phases.get(job) != status and not is_result:
                self._shown_phases[job] = status
                elapsed = timedelta(seconds=asyncio.get_running_loop().time() - self._started_at)
                self.show_note(format_phase_line(job, phase, own, elapsed))

    def close(self) -> None:
        self._flush()

    def _write(self, stream: TextIO, text: str) -> None:
        self._try_write(stream, lambda: stream.write(text))
        if not self._is_flushing:
            # Flush once per iteration of the event loop, so that lines that arrive together are one write.
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        for stream in (self._out, self._err):
            self._try_write(stream, stream.flush)

    def _try_write(self, stream: TextIO, write: Callable[[], object]) -> None:
        """Write; stop the run if the reader is gone, but continue it if the disk is full."""
        try:
            write()
        except BrokenPipeError:
            self._on_hangup()
        except OSError as error:
            redirect_to_devnull(stream)
            if stream is self._out:
                self.show_note(f"! cannot write to standard output: {error.strerror}; the run continues")


def format_phase_line(job_name: str, phase: str, groups: Sequence[GroupStatusLine], elapsed: timedelta) -> str:
    """Format the phase of a job: `[1.2s] bert: Running, worker 2/2`."""
    counts = ", ".join(f"{group.group} {group.replica_counts_text}" for group in groups)
    message = next((text for group in groups if (text := render(group.message))), "")
    return f"[{format_duration(elapsed)}] {job_name}: {phase}, {counts}{f' ({message})' if message else ''}"
