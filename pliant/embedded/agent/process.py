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

BLOCKED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
END_ALL = signal.SIGRTMAX
"""What a watcher is sent to have its program killed with all that belongs to it."""
NOT_STARTED = 128
"""The exit code of a program that could not be started."""
_STARTED = b'{"started": true}\n'
_OPEN_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
_MOST_FILES = 1 << 16


class Program(TypedDict):
    """What to execute, with which variables, and where."""

    argv: list[str]
    env: dict[str, str]
    folder: str


def start(
    program: Program,
    *,
    has_terminal: bool = False,
    is_bound: bool = False,
    prepare: Callable[[], None] = lambda: None,
) -> tuple[int, str]:
    """Start a program on the three descriptors of this process; its id and why it could not be executed, if so.

    One that is bound is killed when this process ends. What there is to prepare is done by the new process: the
    memory that this takes goes with the execution.
    """
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        if is_bound:
            syscalls.die_with_parent()
        _prepared(prepare, telling)
        _become(program, telling, has_terminal=has_terminal)
    os.close(telling)
    failure = ""
    while heard := os.read(told, 4096):
        failure += heard.decode(errors="replace")
    os.close(told)
    return child, failure


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


def report_start(pipe: int, failure: str) -> None:
    """Tell the agent that the program runs, or why it does not."""
    if failure:
        report(pipe, {"error": failure})
    else:
        os.write(pipe, _STARTED)


def report_problem(pipe: int, problem: OSError) -> None:
    """Tell the agent why nothing was started."""
    report(pipe, {"error": _named(problem)})


def close_all_but(first: int, second: int = 2) -> None:
    """Close every descriptor but the standard ones and one or two others."""
    low, high = (first, second) if first < second else (second, first)
    os.closerange(3, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, _MOST_FILES)


def let_go_of_streams() -> None:
    """Leave the standard ones to the program, so that whoever reads its output sees the end of it."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for target in range(3):
        os.dup2(nothing, target)
    os.close(nothing)


def _prepared(prepare: Callable[[], None], telling: int) -> None:
    try:
        prepare()
    except OSError as problem:
        os.write(telling, _named(problem).encode())
        os._exit(NOT_STARTED)


def _named(problem: OSError) -> str:
    return f"{problem.strerror}: {problem.filename}" if problem.filename else str(problem)


def _become(program: Program, telling: int, *, has_terminal: bool) -> NoReturn:
    argv = program["argv"]
    try:
        os.setsid()
        if has_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        _enter_folder(program["folder"])
        for number in BLOCKED:
            # Some are ignored by Python, others by whoever started the cluster: `nohup pliant up`.
            if signal.getsignal(number) is signal.SIG_IGN:
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
