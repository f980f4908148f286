"""Become a program, and keep watch over one that runs: what containers and sessions have in common."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import termios
from collections.abc import Callable
from typing import NoReturn, TypedDict

from pliant.embedded.agent import syscalls

BLOCKED_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
KILL_ALL_SIGNAL = signal.SIGRTMAX
"""What a watcher is sent to have its program killed with all that belongs to it."""
START_FAILED_EXIT_CODE = 128
"""The exit code of a program that could not be started."""
_STARTED_MESSAGE = b'{"started": true}\n'
_INITIAL_NOFILE_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)
_MAX_DESCRIPTOR = 1 << 16


class Program(TypedDict):
    """What to execute, with which variables, and where."""

    argv: list[str]
    env: dict[str, str]
    folder: str


def start_program(
    program: Program,
    *,
    has_terminal: bool = False,
    dies_with_parent: bool = False,
    prepare: Callable[[], None] = lambda: None,
) -> tuple[int, str]:
    """Start a program on the three descriptors of this process; its id and why it could not be executed, if so.

    One that is bound is killed when this process ends. What there is to prepare is done by the new process: the
    memory that this takes goes with the execution.
    """
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        if dies_with_parent:
            syscalls.set_parent_death_signal()
        _run_prepare_hook(prepare, telling)
        _exec_program(program, telling, has_terminal=has_terminal)
    os.close(telling)
    failure = ""
    while heard := os.read(told, 4096):
        failure += heard.decode(errors="replace")
    os.close(told)
    return child, failure


def reap_children(main_pid: int) -> int | None:
    """Collect every ended child; the wait status of `main` if it is among them."""
    found = None
    try:
        while True:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                return found
            if child == main_pid:
                found = status
    except ChildProcessError:
        return found


def decode_wait_status(wait_status: int) -> tuple[int, int]:
    """Exit code, as a shell would tell it, and signal of a wait status."""
    ended_by = os.WTERMSIG(wait_status) if os.WIFSIGNALED(wait_status) else 0
    return (128 + ended_by if ended_by else os.WEXITSTATUS(wait_status)), ended_by


def send_report(report_fd: int, message: dict[str, object]) -> None:
    """Say something to the agent."""
    os.write(report_fd, json.dumps(message).encode() + b"\n")


def report_started(report_fd: int, failure: str) -> None:
    """Tell the agent that the program runs, or why it does not."""
    if failure:
        send_report(report_fd, {"error": failure})
    else:
        os.write(report_fd, _STARTED_MESSAGE)


def report_error(report_fd: int, error: OSError) -> None:
    """Tell the agent why nothing was started."""
    send_report(report_fd, {"error": _describe_os_error(error)})


def close_other_descriptors(kept_fd: int, other_kept_fd: int = 2) -> None:
    """Close every descriptor but the standard ones and one or two others."""
    low, high = (kept_fd, other_kept_fd) if kept_fd < other_kept_fd else (other_kept_fd, kept_fd)
    os.closerange(3, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, _MAX_DESCRIPTOR)


def redirect_streams_to_null() -> None:
    """Leave the standard ones to the program, so that whoever reads its output sees the end of it."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for target in range(3):
        os.dup2(nothing, target)
    os.close(nothing)


def _run_prepare_hook(prepare: Callable[[], None], error_fd: int) -> None:
    try:
        prepare()
    except OSError as problem:
        os.write(error_fd, _describe_os_error(problem).encode())
        os._exit(START_FAILED_EXIT_CODE)


def _describe_os_error(error: OSError) -> str:
    return f"{error.strerror}: {error.filename}" if error.filename else str(error)


def _exec_program(program: Program, error_fd: int, *, has_terminal: bool) -> NoReturn:
    argv = program["argv"]
    try:
        os.setsid()
        if has_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        _enter_working_dir(program["folder"])
        for number in BLOCKED_SIGNALS:
            # Some are ignored by Python, others by whoever started the cluster: `nohup pliant up`.
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_NOFILE, _INITIAL_NOFILE_LIMIT)
        syscalls.drop_privileges()
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.execvpe(argv[0], argv, program["env"])  # noqa: S606 - the very purpose
    except OSError as problem:
        os.write(error_fd, _describe_exec_error(problem, argv[0]).encode())
    except ValueError as problem:  # a null character, or a variable whose name holds an equals sign
        os.write(error_fd, f"exec: {problem}".encode())
    finally:
        os._exit(START_FAILED_EXIT_CODE)


def _enter_working_dir(working_dir: str) -> None:
    try:
        os.chdir(working_dir)
    except OSError as problem:
        raise OSError(problem.errno, f"workingDir {working_dir!r}: {problem.strerror}", None) from problem


def _describe_exec_error(error: OSError, program: str) -> str:
    if error.filename is None:
        return error.strerror or str(error)
    if "/" not in program and error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
        return f'exec: "{program}": executable file not found in $PATH'
    return f'exec: "{program}": {(error.strerror or "").lower()}'
