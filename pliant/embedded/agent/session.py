"""Run one more command in a container that runs: a session.

The agent's request is `{"do": "execute", "pod": …, "run": …, "session": …, "argv": […], "terminal": false}`. The
three descriptors for its input, output and errors arrive on the second socket between parent and agent, as one
message that holds the number of the request. The command gets the namespaces, variables and working folder of the
container; with `terminal` its input must be the inner end of a pseudo-terminal, which then controls it.

What follows is as with containers: an answer when the command runs or cannot, `{"ended": session, "pod": …,
"code": …, "signal": …}` at its end, and `signal` reaches it under the session's name; SIGKILL ends its process
group. A container that ends takes its sessions along.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.process import (
    BLOCKED,
    END_ALL,
    NOT_STARTED,
    Program,
    close_all_but,
    ending,
    reaped,
    report,
    report_problem,
    start,
)

_ALL = syscalls.NEW_MOUNTS | syscalls.NEW_PIDS | syscalls.NEW_NETWORK | syscalls.NEW_HOSTNAME | syscalls.NEW_IPC


def open_session(
    program: Program, container: int, streams: Sequence[int], *, has_terminal: bool
) -> tuple[int, int]:
    """Start a program beside a container's first process; its watcher's id and the pipe on which that reports.

    The streams belong to the session from now on, whether it starts or not.
    """
    handle = -1
    try:
        handle = os.pidfd_open(container)
        reports, ours = os.pipe()
        child = os.fork()
        if child == 0:
            _watch(program, handle, streams, ours, has_terminal=has_terminal)
        os.close(ours)
        return child, reports
    finally:
        for descriptor in (*streams, handle):
            if descriptor >= 0:
                os.close(descriptor)


def _watch(
    program: Program, container: int, streams: Sequence[int], reports: int, *, has_terminal: bool
) -> NoReturn:
    """Start the program in the container's namespaces and wait for its end, as a process outside of them."""
    code = NOT_STARTED
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        for target, source in enumerate(streams):
            os.dup2(source, target)
        close_all_but(reports, container)
        syscalls.setns(container, _ALL)
        os.close(container)
        main, failure = start(program, has_terminal=has_terminal, is_bound=True)
        _let_go_of_streams()
        report(reports, {"error": failure} if failure else {"started": True})
        code = _wait_for(main, reports)
    except OSError as problem:
        report_problem(reports, problem)
    finally:
        os._exit(code)


def _let_go_of_streams() -> None:
    """Leave them to the program, so that whoever reads its output sees the end of it."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for target in range(3):
        os.dup2(nothing, target)
    os.close(nothing)


def _wait_for(main: int, reports: int) -> int:
    while True:
        number = signal.sigwait(BLOCKED)
        if number == signal.SIGCHLD:
            status = reaped(main)
            if status is not None:
                code, ended_by = ending(status)
                report(reports, {"code": code, "signal": ended_by})
                return code
            continue
        with suppress(ProcessLookupError):
            if number == END_ALL:
                os.killpg(main, signal.SIGKILL)
            else:
                os.kill(main, number)
