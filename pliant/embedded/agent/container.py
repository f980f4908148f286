"""Run one container: a first process that reaps and forwards, and the command under it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import NoReturn

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.process import (
    BLOCKED,
    NOT_STARTED,
    Program,
    close_all_but,
    ending,
    reaped,
    report,
    report_problem,
    start,
)
from pliant.embedded.agent.rootfs import Mount, enter_root


class Command(Program):
    """What to run in a pod."""

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
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        for namespace, kind in namespaces:
            syscalls.setns(namespace, kind)
        syscalls.unshare(syscalls.NEW_MOUNTS)
        close_all_but(reports)
        _redirect(command["log"])
        enter_root(stage, command["mounts"])
        main, failure = start(command)
        report(reports, {"error": failure} if failure else {"started": True})
        code = _wait_for(main, reports)
    except OSError as problem:
        report_problem(reports, problem)
    finally:
        os._exit(code)


def _redirect(log: str) -> None:
    """Send both outputs to the log, read from nowhere."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)


def _wait_for(main: int, reports: int) -> int:
    """Reap and pass signals on until the command ends; its exit code as a shell would tell it."""
    while True:
        number = signal.sigwait(BLOCKED)
        if number != signal.SIGCHLD:
            os.kill(main, number)
            continue
        status = reaped(main)
        if status is not None:
            code, ended_by = ending(status)
            report(reports, {"code": code, "signal": ended_by})
            return code
