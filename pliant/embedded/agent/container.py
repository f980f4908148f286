"""Run one container: a first process that reaps, forwards, and keeps log and limits, and the command under it."""

from __future__ import annotations

import os
import select
import signal
import struct
import time
from contextlib import suppress
from typing import NoReturn, NotRequired

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.output import FILE_SIZE, Output
from pliant.embedded.agent.place import Place
from pliant.embedded.agent.process import (
    END_ALL,
    NOT_STARTED,
    Program,
    close_all_but,
    ending,
    reaped,
    report,
    report_problem,
    report_start,
    start,
)
from pliant.embedded.agent.rootfs import Mount
from pliant.embedded.agent.wiring import Wiring

_SIGNAL = struct.Struct("=I124x")
_LOOK_AGAIN = 0.25
"""Seconds between two looks at the memory of a container that has a limit."""


class Command(Program):
    """What to run in a pod."""

    log: str
    log_size: NotRequired[int]
    """Bytes after which a new file is begun."""
    mounts: list[Mount]
    memory: NotRequired[int]
    """Bytes that all its processes may hold together."""
    cpus: NotRequired[list[int]]
    """Those that it may run on, when not all."""
    input: NotRequired[str]
    """A named pipe from which it reads, or its terminal does."""
    terminal: NotRequired[bool]


def spawn(command: Command, place: Place) -> tuple[int, int]:
    """Start a container in a place; its first process's id and the pipe on which it reports.

    The reports are JSON lines: `{"started": true}` or `{"error": …}`, then `{"code": …, "signal": …,
    "outgrown": …}` at the end; outgrown is a container that was killed for its memory.
    The pipe closes when the first process ends, which takes the others along.
    """
    reports, ours = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reports)
        os.close(ours)
        raise
    if child == 0:
        _first_process(command, place, ours)
    os.close(ours)
    return child, reports


def _first_process(command: Command, place: Place, reports: int) -> NoReturn:
    code = NOT_STARTED
    try:
        syscalls.block_signals()
        place.enter()
        close_all_but(reports)
        if command.get("cpus"):
            os.sched_setaffinity(0, command["cpus"])
        output = Output(command["log"], command.get("log_size", FILE_SIZE))
        has_terminal = command.get("terminal", False)
        wiring = Wiring.laid(command.get("input"), has_terminal=has_terminal)
        os.chdir("/")
        # Whoever stands at the root of a mount namespace is moved along when it changes.
        main, failure = start(command, has_terminal=has_terminal, is_bound=place.is_binding, prepare=place.furnish)
        wiring.let_go()
        watch = _Watch(main, wiring, output, place, command.get("memory", 0))
        report_start(reports, failure)
        code, ended_by = watch.until_end()
        report(reports, {"code": code, "signal": ended_by, "outgrown": watch.is_outgrown})
    except OSError as problem:
        report_problem(reports, problem)
    finally:
        os._exit(code)


class _Watch:
    """What the first process does while the command runs."""

    def __init__(self, main: int, wiring: Wiring, output: Output, place: Place, memory: int) -> None:
        self._main = main
        self._place = place
        self._wiring = wiring
        self._written = wiring.written
        self._output = output
        self._memory = memory
        self.is_outgrown = False
        self._looked = 0.0
        self._poll = select.poll()
        self._signals = syscalls.signal_descriptor()
        self._poll.register(self._signals, select.POLLIN)
        self._poll.register(self._written, select.POLLIN)
        if wiring.frames >= 0:
            self._poll.register(wiring.frames, select.POLLIN)

    def until_end(self) -> tuple[int, int]:
        """Work until the command ends; its exit code, as a shell would tell it, and signal."""
        while True:
            for descriptor, _ in self._poll.poll(_LOOK_AGAIN * 1000 if self._memory else None):
                if descriptor == self._written:
                    if not self._output.take(self._written):
                        self._poll.unregister(self._written)
                elif descriptor == self._wiring.frames:
                    if not self._wiring.feed():
                        self._poll.unregister(self._wiring.frames)
                elif (status := self._hear_signals()) is not None:
                    self._place.kill_all()
                    while self._output.take(self._written):
                        pass
                    return ending(status)
            if self._memory:
                self._look_at_memory()

    def _hear_signals(self) -> int | None:
        """Pass signals on; the wait status of the command if it has ended."""
        for (number,) in _SIGNAL.iter_unpack(os.read(self._signals, 64 * _SIGNAL.size)):
            if number == signal.SIGCHLD:
                status = reaped(self._main)
                if status is not None:
                    return status
            elif number == END_ALL:
                self._place.kill_all()
            else:
                with suppress(ProcessLookupError):
                    os.kill(self._main, number)
        return None

    def _look_at_memory(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_AGAIN:
            return
        self._looked = now
        if self._place.exceeds(self._memory):
            self.is_outgrown = True
            self._place.kill_all()
