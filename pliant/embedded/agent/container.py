"""Run one container: a first process that reaps and forwards, and the command under it."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
from collections.abc import Sequence
from typing import NoReturn, TypedDict

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.rootfs import Mount, enter_root

_BLOCKED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_OPEN_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
_MOST_FILES = 1 << 16
NOT_STARTED = 128
"""The exit code of a container whose command could not be started."""


class Command(TypedDict):
    """What to run in a pod."""

    argv: list[str]
    env: dict[str, str]
    folder: str
    log: str
    mounts: list[Mount]


def spawn(command: Command, namespaces: Sequence[tuple[int, int]], stage: str, own_pids: int) -> tuple[int, int]:
    """Start a container; its first process's id and the pipe on which it reports.

    The reports are JSON lines: `{"started": true}` or `{"error": …}`, then `{"code": …, "signal": …}` at the end.
    The pipe closes when the first process ends, and the kernel ends the others with it.
    """
    reports, ours = os.pipe()
    syscalls.unshare(syscalls.NEW_PIDS)
    try:
        child = os.fork()
    except OSError:
        syscalls.setns(own_pids, syscalls.NEW_PIDS)
        raise
    if child == 0:
        _first_process(command, namespaces, stage, ours)
    syscalls.setns(own_pids, syscalls.NEW_PIDS)
    os.close(ours)
    return child, reports


def _first_process(command: Command, namespaces: Sequence[tuple[int, int]], stage: str, reports: int) -> NoReturn:
    code = NOT_STARTED
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        for namespace, kind in namespaces:
            syscalls.setns(namespace, kind)
        syscalls.unshare(syscalls.NEW_MOUNTS)
        _close_all_but(reports)
        _redirect(command["log"])
        enter_root(stage, command["mounts"])
        main, failure = _start_main(command)
        _report(reports, {"error": failure} if failure else {"started": True})
        code = _wait_for(main, reports)
    except OSError as problem:
        named = f"{problem.strerror}: {problem.filename}" if problem.filename else str(problem)
        _report(reports, {"error": named})
    finally:
        os._exit(code)


def _close_all_but(kept: int) -> None:
    os.closerange(3, kept)
    os.closerange(kept + 1, _MOST_FILES)


def _redirect(log: str) -> None:
    """Send both outputs to the log, read from nowhere."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)


def _start_main(command: Command) -> tuple[int, str]:
    """Start the command; its process id and why it could not be executed, if so."""
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        _become(command, telling)
    os.close(telling)
    failure = b"".join(iter(lambda: os.read(told, 4096), b""))
    os.close(told)
    return child, failure.decode()


def _become(command: Command, telling: int) -> NoReturn:
    argv = command["argv"]
    try:
        os.setsid()
        _enter_folder(command["folder"])
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_NOFILE, _OPEN_FILES)
        syscalls.give_up_privileges()
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.execvpe(argv[0], argv, command["env"])  # noqa: S606 - the very purpose
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


def _wait_for(main: int, reports: int) -> int:
    """Reap and pass signals on until the command ends; its exit code as a shell would tell it."""
    while True:
        number = signal.sigwait(_BLOCKED)
        if number != signal.SIGCHLD:
            os.kill(main, number)
            continue
        status = _reaped(main)
        if status is not None:
            ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            code = 128 + ended_by if ended_by else os.WEXITSTATUS(status)
            _report(reports, {"code": code, "signal": ended_by})
            return code


def _reaped(main: int) -> int | None:
    """Collect every ended process; the status of `main` if it is among them."""
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


def _report(pipe: int, words: dict[str, object]) -> None:
    os.write(pipe, json.dumps(words).encode() + b"\n")
