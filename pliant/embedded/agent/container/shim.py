"""The shims of containers and sessions: start a program, forward signals to it and report its exit.

Input for the terminal of a container arrives as frames in the pipe `stdin_path`: a letter, the length of the content
as a 16-bit integer, and the content. `i` is input; `s` is the window size, columns and rows as 16-bit integers.
Without a terminal, the program reads the pipe itself.

A session is one more command in a running container, as for `kubectl exec`, with the container's environment and
working directory. With a terminal, its stdin must be the inner end of a pseudo-terminal, which becomes its controlling
terminal. SIGKILL kills the process group of the session, or all its descendants in the host network mode.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import termios
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.container import process, process_usage
from pliant.embedded.agent.container.config import ContainerConfig, Program
from pliant.embedded.agent.container.log_writer import MAX_LOG_FILE_BYTES, LogWriter, copy_to_log, create_log_writer
from pliant.embedded.agent.isolation.cgroups import AssignedCgroup
from pliant.embedded.agent.isolation.container_namespaces import ContainerNamespaces

_FRAME_HEADER = struct.Struct(">cH")
_WINDOW_SIZE = struct.Struct(">HH")
_SIGNALFD_INFO = struct.Struct("=I124x")
_READ_BYTES = 1 << 12
_MIN_CHECK_INTERVAL, _MAX_CHECK_INTERVAL = 0.25, 1.0
"""Seconds between two checks of the memory; the interval doubles while the memory does not change."""


class ContainerStdio:
    """The shim's ends of the standard streams of a program; the child process takes the other ends."""

    def __init__(self, stdin_path: str | None, *, has_terminal: bool) -> None:
        self._stdin_path = stdin_path or os.devnull
        self._has_terminal = has_terminal
        self.output_fd, self._container_end = os.openpty() if has_terminal else os.pipe()
        self.frames_fd = os.open(self._stdin_path, os.O_RDONLY) if has_terminal else -1
        """Receives the input and window sizes of a terminal; -1 without a terminal."""
        self._buffer = b""
        os.set_blocking(self.output_fd, False)

    def replace_standard_streams(self) -> None:
        """Replace the standard streams of this process by the container's ends."""
        stdin_fd = self._container_end if self._has_terminal else os.open(self._stdin_path, os.O_RDONLY)
        for target, fd in enumerate((stdin_fd, self._container_end, self._container_end)):
            os.dup2(fd, target)

    def close_container_end(self) -> None:
        """Close the shim's copy of the container's end, so that the shim sees end-of-file."""
        os.close(self._container_end)

    def forward_terminal_frames(self) -> bool:
        """Forward received frames to the terminal; return False at end-of-file."""
        data = os.read(self.frames_fd, _READ_BYTES)
        self._buffer += data
        while len(self._buffer) >= _FRAME_HEADER.size:
            frame_type, length = _FRAME_HEADER.unpack_from(self._buffer)
            content = self._buffer[_FRAME_HEADER.size : _FRAME_HEADER.size + length]
            if len(content) < length:
                break
            self._buffer = self._buffer[_FRAME_HEADER.size + length :]
            self._handle_frame(frame_type, content)
        return bool(data)

    def _handle_frame(self, frame_type: bytes, content: bytes) -> None:
        # A terminal drops input that exceeds its buffer.
        with suppress(OSError, struct.error):
            if frame_type == b"i":
                os.write(self.output_fd, content)
            elif frame_type == b"s":
                columns, rows = _WINDOW_SIZE.unpack(content)
                fcntl.ioctl(self.output_fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class MemoryWatchdog:
    """Kills a container that exceeds its memory limit, where no cgroup enforces the limit."""

    def __init__(self, namespaces: ContainerNamespaces, limit_bytes: int) -> None:
        self._namespaces = namespaces
        self._limit_bytes = limit_bytes
        self._resident_bytes = 0
        self._check_interval = _MIN_CHECK_INTERVAL
        self._next_check_at = 0.0
        self.has_killed = False

    def ms_until_check(self) -> float:
        """Return the milliseconds until the next check."""
        return max(0.0, self._next_check_at - time.monotonic()) * 1000

    def kill_if_over_limit(self) -> None:
        """Kill all processes of the container if they exceed the limit; do nothing before the check is due."""
        now = time.monotonic()
        if now < self._next_check_at:
            return
        processes = self._namespaces.list_container_pids()
        resident = process_usage.resident_bytes(processes)
        longer_interval = min(self._check_interval * 2, _MAX_CHECK_INTERVAL)
        self._check_interval = longer_interval if resident == self._resident_bytes else _MIN_CHECK_INTERVAL
        self._next_check_at, self._resident_bytes = now + self._check_interval, resident
        # Proportional memory is expensive to measure, and resident memory is never less.
        if resident > self._limit_bytes and process_usage.proportional_bytes(processes) > self._limit_bytes:
            self.has_killed = True
            self._namespaces.kill_container_processes()


def fork_container_shim(config: ContainerConfig, namespaces: ContainerNamespaces) -> process.ShimHandle:
    """Start a container in a new shim.

    The reports are JSON lines: `{"started": true}` or `{"error": …}`, and `{"code": …, "signal": …, "oom_killed": …}`
    at the exit. The pipe closes when the shim exits, after all other processes of the container.
    """

    def run(report_fd: int) -> NoReturn:
        run_container_shim(config, namespaces, report_fd)

    return process.fork_with_report_pipe(run)


def run_container_shim(config: ContainerConfig, namespaces: ContainerNamespaces, report_fd: int) -> NoReturn:
    """Turn this process into the shim of a container and exit with the container."""
    code = process.START_FAILED_EXIT_CODE
    try:
        syscalls.block_all_signals()
        namespaces.prepare_shim()
        process.close_other_descriptors(report_fd)
        if config.get("cpuset"):
            os.sched_setaffinity(0, config["cpuset"])
        log_writer = create_log_writer(config["log_path"], config.get("max_log_bytes", MAX_LOG_FILE_BYTES))
        next(log_writer)
        has_terminal = config.get("tty", False)
        stdio = ContainerStdio(config.get("stdin_path"), has_terminal=has_terminal)
        cgroup = AssignedCgroup(config)

        def prepare() -> None:
            stdio.replace_standard_streams()
            cgroup.join()
            namespaces.setup_rootfs()

        # The kernel moves a process whose working directory is the root along with pivot_root.
        os.chdir("/")
        dies_with_parent = namespaces.needs_parent_death_signal
        main_pid, failure = process.start_program(
            config, has_terminal=has_terminal, dies_with_parent=dies_with_parent, before_exec=prepare
        )
        namespaces.note_main_process(main_pid)
        stdio.close_container_end()
        process.redirect_streams_to_null()
        process.report_start_result(report_fd, failure)
        memory_limit = 0 if cgroup.enforces_memory else config.get("memory_limit", 0)
        code, signal_number, is_oom_killed = _supervise_container(main_pid, stdio, log_writer, namespaces, memory_limit)
        is_oom_killed = is_oom_killed or cgroup.was_oom_killed()
        process.send_report(report_fd, {"code": code, "signal": signal_number, "oom_killed": is_oom_killed})
    except OSError as error:
        process.report_start_error(report_fd, error)
    finally:
        os._exit(code)


def _supervise_container(
    main_pid: int, stdio: ContainerStdio, log_writer: LogWriter, namespaces: ContainerNamespaces, memory_limit: int
) -> tuple[int, int, bool]:
    """Serve the program until it exits; return its exit code, its signal, and whether the watchdog killed it."""
    watchdog = MemoryWatchdog(namespaces, memory_limit) if memory_limit else None
    output_fd, frames_fd, signal_fd = stdio.output_fd, stdio.frames_fd, syscalls.create_signalfd()
    poll = select.poll()
    for fd in (output_fd, frames_fd, signal_fd):
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    while True:
        for fd, _ in poll.poll(watchdog.ms_until_check() if watchdog else None):
            if fd == output_fd:
                if not copy_to_log(output_fd, log_writer):
                    poll.unregister(output_fd)
            elif fd == frames_fd:
                if not stdio.forward_terminal_frames():
                    poll.unregister(frames_fd)
            elif (status := _handle_signals(signal_fd, main_pid, namespaces)) is not None:
                namespaces.kill_container_processes()
                while copy_to_log(output_fd, log_writer):
                    pass
                return *process.decode_wait_status(status), watchdog is not None and watchdog.has_killed
        if watchdog:
            watchdog.kill_if_over_limit()


def _handle_signals(signal_fd: int, main_pid: int, namespaces: ContainerNamespaces) -> int | None:
    """Forward pending signals to the program; return its wait status if it has exited."""
    for (number,) in _SIGNALFD_INFO.iter_unpack(os.read(signal_fd, 64 * _SIGNALFD_INFO.size)):
        if number == signal.SIGCHLD:
            status = process.reap_children(main_pid)
            if status is not None:
                return status
        elif number == process.KILL_ALL_SIGNAL:
            namespaces.kill_container_processes()
        else:
            with suppress(ProcessLookupError):
                os.kill(main_pid, number)
    return None


def fork_session_shim(
    program: Program, namespaces: ContainerNamespaces, stdio_fds: Sequence[int], *, has_terminal: bool
) -> process.ShimHandle:
    """Start a program in the namespaces of a container, with its own shim."""

    def run(report_fd: int) -> NoReturn:
        _run_session_shim(program, namespaces, stdio_fds, report_fd, has_terminal=has_terminal)

    return process.fork_with_report_pipe(run)


def _run_session_shim(
    program: Program, namespaces: ContainerNamespaces, stdio_fds: Sequence[int], report_fd: int, *, has_terminal: bool
) -> NoReturn:
    code = process.START_FAILED_EXIT_CODE
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, process.BLOCKED_SIGNALS)
        for target, source in enumerate(stdio_fds):
            os.dup2(source, target)
        namespaces.prepare_shim()
        process.close_other_descriptors(report_fd)
        dies_with_parent = namespaces.needs_parent_death_signal
        main_pid, failure = process.start_program(program, has_terminal=has_terminal, dies_with_parent=dies_with_parent)
        process.redirect_streams_to_null()
        process.report_start_result(report_fd, failure)
        code = _supervise_session(main_pid, namespaces, report_fd)
    except OSError as error:
        process.report_start_error(report_fd, error)
    finally:
        os._exit(code)


def _supervise_session(main_pid: int, namespaces: ContainerNamespaces, report_fd: int) -> int:
    """Forward signals to the command until it exits; report and return its exit code."""
    while True:
        number = signal.sigwait(process.BLOCKED_SIGNALS)
        if number == signal.SIGCHLD:
            status = process.reap_children(main_pid)
            if status is not None:
                code, signal_number = process.decode_wait_status(status)
                namespaces.kill_container_processes()
                process.send_report(report_fd, {"code": code, "signal": signal_number})
                return code
            continue
        with suppress(ProcessLookupError):
            if number == process.KILL_ALL_SIGNAL:
                os.killpg(main_pid, signal.SIGKILL)
                namespaces.kill_container_processes()
            else:
                os.kill(main_pid, number)
