"""Connect a command's streams: output to a pipe or a terminal, input from nowhere, a pipe, or a terminal.

Whoever feeds a terminal writes frames into the pipe named `input`: one letter, the length of what follows as a
16-bit number, and that. `i` is input; `s` is the size, columns and rows as 16-bit numbers. Without a terminal the
command itself reads from the pipe.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import termios
import time
from contextlib import suppress
from typing import NoReturn, NotRequired

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.container import process_usage
from pliant.embedded.agent.container.log_writer import MAX_LOG_FILE_BYTES, LogWriter, copy_to_log, write_log
from pliant.embedded.agent.container.process import (
    KILL_ALL_SIGNAL,
    START_FAILED_EXIT_CODE,
    Program,
    close_other_descriptors,
    decode_wait_status,
    reap_children,
    redirect_streams_to_null,
    report_error,
    report_started,
    send_report,
    start_program,
)
from pliant.embedded.agent.isolation.cgroups import ContainerCgroup, ResourceLimits
from pliant.embedded.agent.isolation.container_namespaces import ContainerNamespaces
from pliant.embedded.agent.isolation.rootfs import MountSpec

_FRAME_HEADER = struct.Struct(">cH")
_WINDOW_SIZE = struct.Struct(">HH")
_READ_BYTES = 1 << 12


class ContainerStdio:
    """Our ends of the streams of a command; the other ends are taken up by the process that becomes it."""

    def __init__(self, stdin_path: str | None, *, has_terminal: bool) -> None:
        self._stdin_path = stdin_path or os.devnull
        self._has_terminal = has_terminal
        self.output_fd, self._container_end = os.openpty() if has_terminal else os.pipe()
        """Where its output arrives."""
        self.frames_fd = os.open(self._stdin_path, os.O_RDONLY) if has_terminal else -1
        """Where input and sizes for its terminal arrive; -1 where nobody sends them."""
        self._buffer = b""
        os.set_blocking(self.output_fd, False)

    def replace_standard_streams(self) -> None:
        """Put the inner ends in place of this process's standard streams."""
        read = self._container_end if self._has_terminal else os.open(self._stdin_path, os.O_RDONLY)
        for target, descriptor in enumerate((read, self._container_end, self._container_end)):
            os.dup2(descriptor, target)

    def close_container_end(self) -> None:
        """Leave the inner ends to the command, so that their end is seen."""
        os.close(self._container_end)

    def forward_input(self) -> bool:
        """Pass on what has come for the terminal; false at the end of it."""
        data = os.read(self.frames_fd, _READ_BYTES)
        self._buffer += data
        while len(self._buffer) >= _FRAME_HEADER.size:
            letter, length = _FRAME_HEADER.unpack_from(self._buffer)
            content = self._buffer[_FRAME_HEADER.size : _FRAME_HEADER.size + length]
            if len(content) < length:
                break
            self._buffer = self._buffer[_FRAME_HEADER.size + length :]
            self._handle_frame(letter, content)
        return bool(data)

    def _handle_frame(self, frame_type: bytes, content: bytes) -> None:
        # A terminal whose input is full drops the rest, as terminals do.
        with suppress(OSError, struct.error):
            if frame_type == b"i":
                os.write(self.output_fd, content)
            elif frame_type == b"s":
                columns, rows = _WINDOW_SIZE.unpack(content)
                fcntl.ioctl(self.output_fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


_MIN_CHECK_INTERVAL, _MAX_CHECK_INTERVAL = 0.25, 1.0
"""Seconds between two looks; those whose memory stays the same are looked at less and less often."""


class MemoryWatchdog:
    """What the processes of a container may hold together."""

    def __init__(self, namespaces: ContainerNamespaces, limit_bytes: int) -> None:
        self._namespaces = namespaces
        self._limit_bytes = limit_bytes
        self._resident = 0
        self._check_interval = _MIN_CHECK_INTERVAL
        self._next_check_at = 0.0
        self.has_killed = False
        """Whether they were killed for it."""

    def ms_until_check(self) -> float:
        """Milliseconds until the next look."""
        return max(0.0, self._next_check_at - time.monotonic()) * 1000

    def check(self) -> None:
        """Kill all of them if they hold too much, when it is time to look."""
        now = time.monotonic()
        if now < self._next_check_at:
            return
        processes = self._namespaces.list_pids()
        resident = process_usage.resident_bytes(processes)
        self._check_interval = (
            min(self._check_interval * 2, _MAX_CHECK_INTERVAL) if resident == self._resident else _MIN_CHECK_INTERVAL
        )
        self._next_check_at, self._resident = now + self._check_interval, resident
        # Counting what is held is dear; what is resident is never less.
        if resident > self._limit_bytes and process_usage.proportional_bytes(processes) > self._limit_bytes:
            self.has_killed = True
            self._namespaces.kill_all()


_SIGNALFD_INFO = struct.Struct("=I124x")


class ContainerSpec(Program, ResourceLimits):
    """What to run in a pod."""

    log: str
    log_size: NotRequired[int]
    """Bytes after which a new file is begun."""
    mounts: list[MountSpec]
    cpus: NotRequired[list[int]]
    """Those that it may run on, when not all."""
    input: NotRequired[str]
    """A named pipe from which it reads, or its terminal does."""
    terminal: NotRequired[bool]


def fork_shim(spec: ContainerSpec, namespaces: ContainerNamespaces) -> tuple[int, int]:
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
        run_shim(spec, namespaces, ours)
    os.close(ours)
    return child, reports


def run_shim(spec: ContainerSpec, namespaces: ContainerNamespaces, report_fd: int) -> NoReturn:
    """Be the first process of a container, to its end."""
    code = START_FAILED_EXIT_CODE
    try:
        syscalls.block_all_signals()
        namespaces.enter()
        close_other_descriptors(report_fd)
        if spec.get("cpus"):
            os.sched_setaffinity(0, spec["cpus"])
        output = write_log(spec["log"], spec.get("log_size", MAX_LOG_FILE_BYTES))
        next(output)
        has_terminal = spec.get("terminal", False)
        wiring = ContainerStdio(spec.get("input"), has_terminal=has_terminal)
        cell = ContainerCgroup(spec)

        def prepare() -> None:
            wiring.replace_standard_streams()
            cell.join()
            namespaces.setup_rootfs()

        # Whoever stands at the root of a mount namespace is moved along when it changes.
        os.chdir("/")
        main, failure = start_program(
            spec, has_terminal=has_terminal, dies_with_parent=namespaces.needs_parent_death_signal, prepare=prepare
        )
        wiring.close_container_end()
        redirect_streams_to_null()
        report_started(report_fd, failure)
        watched = 0 if cell.enforces_memory else spec.get("memory", 0)
        code, ended_by, is_outgrown = _supervise_container(main, wiring, output, namespaces, watched)
        is_outgrown = is_outgrown or cell.was_oom_killed()
        send_report(report_fd, {"code": code, "signal": ended_by, "outgrown": is_outgrown})
    except OSError as problem:
        report_error(report_fd, problem)
    finally:
        os._exit(code)


def _supervise_container(
    main_pid: int, stdio: ContainerStdio, log_writer: LogWriter, namespaces: ContainerNamespaces, memory_limit: int
) -> tuple[int, int, bool]:
    """Work until the command ends: its exit code, as a shell would tell it, signal, and whether it was too big."""
    limit = MemoryWatchdog(namespaces, memory_limit) if memory_limit else None
    written, frames, signals = stdio.output_fd, stdio.frames_fd, syscalls.create_signalfd()
    poll = select.poll()
    for each in (written, frames, signals):
        if each >= 0:
            poll.register(each, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll(limit.ms_until_check() if limit else None):
            if descriptor == written:
                if not copy_to_log(written, log_writer):
                    poll.unregister(written)
            elif descriptor == frames:
                if not stdio.forward_input():
                    poll.unregister(frames)
            elif (status := _handle_signals(signals, main_pid, namespaces)) is not None:
                namespaces.kill_all()
                while copy_to_log(written, log_writer):
                    pass
                return *decode_wait_status(status), limit is not None and limit.has_killed
        if limit:
            limit.check()


def _handle_signals(signal_fd: int, main_pid: int, namespaces: ContainerNamespaces) -> int | None:
    """Pass signals on; the wait status of the command if it has ended."""
    for (number,) in _SIGNALFD_INFO.iter_unpack(os.read(signal_fd, 64 * _SIGNALFD_INFO.size)):
        if number == signal.SIGCHLD:
            status = reap_children(main_pid)
            if status is not None:
                return status
        elif number == KILL_ALL_SIGNAL:
            namespaces.kill_all()
        else:
            with suppress(ProcessLookupError):
                os.kill(main_pid, number)
    return None
