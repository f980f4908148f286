"""Become a program, and keep watch over one that runs: what containers and sessions have in common."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import termios
from typing import NoReturn, TypedDict

from pliant.embedded.agent import syscalls

BLOCKED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
END_ALL = signal.SIGRTMAX
"""What a watcher is sent to have its program killed with all that belongs to it."""
NOT_STARTED = 128
"""The exit code of a program that could not be started."""
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_OPEN_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
_MOST_FILES = 1 << 16


class Program(TypedDict):
    """What to execute, with which variables, and where."""

    argv: list[str]
    env: dict[str, str]
    folder: str


def start(program: Program, *, has_terminal: bool = False, is_bound: bool = False) -> tuple[int, str]:
    """Start a program on the three descriptors of this process; its id and why it could not be executed, if so.

    One that is bound is killed when this process ends.
    """
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        if is_bound:
            syscalls.die_with_parent()
        _become(program, telling, has_terminal=has_terminal)
    os.close(telling)
    failure = b"".join(iter(lambda: os.read(told, 4096), b""))
    os.close(told)
    return child, failure.decode()


def reaped(main: int) -> int | None:
    """Collect every ended child; the wait status of `main` if it is among them."""
    found = None
    try:
        while True:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                return found
            if child == main:
                found = status
    except ChildProcessError:
        return found


def ending(status: int) -> tuple[int, int]:
    """Exit code, as a shell would tell it, and signal of a wait status."""
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return (128 + ended_by if ended_by else os.WEXITSTATUS(status)), ended_by


def report(pipe: int, words: dict[str, object]) -> None:
    """Say something to the agent."""
    os.write(pipe, json.dumps(words).encode() + b"\n")


def report_problem(pipe: int, problem: OSError) -> None:
    """Tell the agent why nothing was started."""
    named = f"{problem.strerror}: {problem.filename}" if problem.filename else str(problem)
    report(pipe, {"error": named})


def close_all_but(*kept: int) -> None:
    """Close every descriptor but the standard ones and those kept."""
    low = 3
    for descriptor in sorted(kept):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, _MOST_FILES)


def _become(program: Program, telling: int, *, has_terminal: bool) -> NoReturn:
    argv = program["argv"]
    try:
        os.setsid()
        if has_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        _enter_folder(program["folder"])
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_NOFILE, _OPEN_FILES)
        syscalls.give_up_privileges()
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.execvpe(argv[0], argv, program["env"])  # noqa: S606 - the very purpose
    except OSError as problem:
        os.write(telling, _why(problem, argv[0]).encode())
    except ValueError as problem:  # a null character, or a variable whose name holds an equals sign
        os.write(telling, f"exec: {problem}".encode())
    finally:
        os._exit(NOT_STARTED)


def _enter_folder(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as problem:
        raise OSError(problem.errno, f"workingDir {folder!r}: {problem.strerror}", None) from problem


def _why(problem: OSError, program: str) -> str:
    if problem.filename is None:
        return problem.strerror or str(problem)
    if "/" not in program and problem.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
        return f'exec: "{program}": executable file not found in $PATH'
    return f'exec: "{program}": {(problem.strerror or "").lower()}'
