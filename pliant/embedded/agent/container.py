"""Run one container: a first process that reaps, forwards, and keeps log and limits, and the command under it."""

from __future__ import annotations

import os
import select
import signal
import struct
from contextlib import suppress
from typing import NoReturn, NotRequired

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.cells import Cell, Limits
from pliant.embedded.agent.limit import Limit
from pliant.embedded.agent.output import FILE_SIZE, Scribe, copied, scribe
from pliant.embedded.agent.place import Place
from pliant.embedded.agent.process import (
    END_ALL,
    NOT_STARTED,
    Program,
    close_all_but,
    ending,
    let_go_of_streams,
    reaped,
    report,
    report_problem,
    report_start,
    start,
)
from pliant.embedded.agent.rootfs import Mount
from pliant.embedded.agent.wiring import Wiring

_SIGNAL = struct.Struct("=I124x")


class Command(Program, Limits):
    """What to run in a pod."""

    log: str
    log_size: NotRequired[int]
    """Bytes after which a new file is begun."""
    mounts: list[Mount]
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
        live(command, place, ours)
    os.close(ours)
    return child, reports


def live(command: Command, place: Place, reports: int) -> NoReturn:
    """Be the first process of a container, to its end."""
    code = NOT_STARTED
    try:
        syscalls.block_signals()
        place.enter()
        close_all_but(reports)
        if command.get("cpus"):
            os.sched_setaffinity(0, command["cpus"])
        output = scribe(command["log"], command.get("log_size", FILE_SIZE))
        next(output)
        has_terminal = command.get("terminal", False)
        wiring = Wiring(command.get("input"), has_terminal=has_terminal)
        cell = Cell(command)

        def prepare() -> None:
            wiring.take_up()
            cell.join()
            place.furnish()

        # Whoever stands at the root of a mount namespace is moved along when it changes.
        os.chdir("/")
        main, failure = start(command, has_terminal=has_terminal, is_bound=place.is_binding, prepare=prepare)
        wiring.let_go()
        let_go_of_streams()
        report_start(reports, failure)
        watched = 0 if cell.keeps_memory else command.get("memory", 0)
        code, ended_by, is_outgrown = _until_end(main, wiring, output, place, watched)
        is_outgrown = is_outgrown or cell.has_killed()
        report(reports, {"code": code, "signal": ended_by, "outgrown": is_outgrown})
    except OSError as problem:
        report_problem(reports, problem)
    finally:
        os._exit(code)


def _until_end(main: int, wiring: Wiring, output: Scribe, place: Place, memory: int) -> tuple[int, int, bool]:
    """Work until the command ends: its exit code, as a shell would tell it, signal, and whether it was too big."""
    limit = Limit(place, memory) if memory else None
    written, frames, signals = wiring.written, wiring.frames, syscalls.signal_descriptor()
    poll = select.poll()
    for each in (written, frames, signals):
        if each >= 0:
            poll.register(each, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll(limit.patience() if limit else None):
            if descriptor == written:
                if not copied(written, output):
                    poll.unregister(written)
            elif descriptor == frames:
                if not wiring.feed():
                    poll.unregister(frames)
            elif (status := _heard(signals, main, place)) is not None:
                place.kill_all()
                while copied(written, output):
                    pass
                return *ending(status), limit is not None and limit.is_passed
        if limit:
            limit.look()


def _heard(signals: int, main: int, place: Place) -> int | None:
    """Pass signals on; the wait status of the command if it has ended."""
    for (number,) in _SIGNAL.iter_unpack(os.read(signals, 64 * _SIGNAL.size)):
        if number == signal.SIGCHLD:
            status = reaped(main)
            if status is not None:
                return status
        elif number == END_ALL:
            place.kill_all()
        else:
            with suppress(ProcessLookupError):
                os.kill(main, number)
    return None
