"""Start a program, reap it, and report its exit: what the shims of containers and sessions share."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import termios
from collections.abc import Callable
from typing import NoReturn

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.container.config import Program

BLOCKED_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
KILL_ALL_SIGNAL = signal.SIGRTMAX
"""The signal on which a shim kills all processes of its container or session."""
START_FAILED_EXIT_CODE = 128
_STARTED_MESSAGE = b'{"started": true}\n'
_INITIAL_NOFILE_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)
_MAX_DESCRIPTOR = 1 << 16


ShimHandle = tuple[int, int]
"""The pid of a shim, and the descriptor from which its reports are read."""


def fork_with_report_pipe(run: Callable[[int], NoReturn]) -> ShimHandle:
    """Fork a shim that runs `run` with the write end of its report pipe."""
    report_fd, shim_end = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(report_fd)
        os.close(shim_end)
        raise
    if child == 0:
        run(shim_end)
    os.close(shim_end)
    return child, report_fd


def start_program(
    program: Program,
    *,
    has_terminal: bool = False,
    dies_with_parent: bool = False,
    before_exec: Callable[[], None] = lambda: None,
) -> tuple[int, str]:
    """Start a program on the standard streams of this process; return its pid and why exec failed, if it did.

    `prepare` runs in the new process: exec frees the memory that it takes.
    """
    error_pipe, error_fd = os.pipe()
    child = os.fork()
    if child == 0:
        if dies_with_parent:
            syscalls.set_parent_death_signal()
        try:
            before_exec()
        except OSError as error:
            os.write(error_fd, _describe_os_error(error).encode())
            os._exit(START_FAILED_EXIT_CODE)
        _exec_program(program, error_fd, has_terminal=has_terminal)
    os.close(error_fd)
    failure = ""
    while data := os.read(error_pipe, 4096):
        failure += data.decode(errors="replace")
    os.close(error_pipe)
    return child, failure


def reap_children(main_pid: int) -> int | None:
    """Reap all exited children; return the wait status of `main_pid` if it is among them."""
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
    """Return the exit code, as a shell reports it, and the signal of a wait status."""
    signal_number = os.WTERMSIG(wait_status) if os.WIFSIGNALED(wait_status) else 0
    return (128 + signal_number if signal_number else os.WEXITSTATUS(wait_status)), signal_number


def send_report(report_fd: int, message: dict[str, object]) -> None:
    os.write(report_fd, json.dumps(message).encode() + b"\n")


def report_start_result(report_fd: int, failure: str) -> None:
    """Report to the agent that the program runs, or why it does not."""
    if failure:
        send_report(report_fd, {"error": failure})
    else:
        os.write(report_fd, _STARTED_MESSAGE)


def report_start_error(report_fd: int, error: OSError) -> None:
    """Report to the agent why no program was started."""
    send_report(report_fd, {"error": _describe_os_error(error)})


def close_other_descriptors(kept_fd: int) -> None:
    """Close all descriptors except the standard streams and another one."""
    os.closerange(3, kept_fd)
    os.closerange(kept_fd + 1, _MAX_DESCRIPTOR)


def redirect_streams_to_null() -> None:
    """Give up the standard streams, so that readers see end-of-file when the program closes them."""
    null_fd = os.open("/dev/null", os.O_RDWR)
    for target in range(3):
        os.dup2(null_fd, target)
    os.close(null_fd)


def _describe_os_error(error: OSError) -> str:
    return f"{error.strerror}: {error.filename}" if error.filename else str(error)


def _exec_program(program: Program, error_fd: int, *, has_terminal: bool) -> NoReturn:
    argv = program["argv"]
    try:
        os.setsid()
        if has_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        _enter_working_dir(program["working_dir"])
        for number in BLOCKED_SIGNALS:
            # Python ignores some signals, and `nohup pliant up` ignores others.
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_NOFILE, _INITIAL_NOFILE_LIMIT)
        syscalls.drop_privileges()
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.execvpe(argv[0], argv, program["env"])  # noqa: S606 - the purpose of a container
    except OSError as error:
        os.write(error_fd, _describe_exec_error(error, argv[0]).encode())
    except ValueError as error:  # A null character, or an equals sign in the name of a variable.
        os.write(error_fd, f"exec: {error}".encode())
    finally:
        os._exit(START_FAILED_EXIT_CODE)


def _enter_working_dir(working_dir: str) -> None:
    try:
        os.chdir(working_dir)
    except OSError as error:
        raise OSError(error.errno, f"workingDir {working_dir!r}: {error.strerror}", None) from error


def _describe_exec_error(error: OSError, program: str) -> str:
    if error.filename is None:
        return error.strerror or str(error)
    if "/" not in program and error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
        return f'exec: "{program}": executable file not found in $PATH'
    return f'exec: "{program}": {(error.strerror or "").lower()}'
