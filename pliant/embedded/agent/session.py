"""Run one more command in a container that runs: a session.

The agent's request is `{"do": "execute", "pod": …, "run": …, "session": …, "argv": […], "terminal": false}`. The
three descriptors for its input, output and errors arrive on the second socket between parent and agent, as one
message that holds the number of the request. The command gets the namespaces, variables and working folder of the
container; with `terminal` its input must be the inner end of a pseudo-terminal, which then controls it.

What follows is as with containers: an answer when the command runs or cannot, `{"ended": session, "pod": …,
"code": …, "signal": …}` at its end, and `signal` reaches it under the session's name; SIGKILL ends its process
group, or all that descends from it where that can be known. A container that ends takes its sessions along.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from pliant.embedded.agent.place import Place
from pliant.embedded.agent.process import (
    BLOCKED,
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


def open_session(program: Program, place: Place, streams: Sequence[int], *, has_terminal: bool) -> tuple[int, int]:
    """Start a program in the place of a container; its watcher's id and the pipe on which that reports."""
    reports, ours = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reports)
        os.close(ours)
        raise
    if child == 0:
        _watch(program, place, streams, ours, has_terminal=has_terminal)
    os.close(ours)
    return child, reports


def _watch(
    program: Program, place: Place, streams: Sequence[int], reports: int, *, has_terminal: bool
) -> NoReturn:
    """Start the program and wait for its end, as a process that does not belong to the container."""
    code = NOT_STARTED
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        for target, source in enumerate(streams):
            os.dup2(source, target)
        place.enter()
        close_all_but(reports)
        main, failure = start(program, has_terminal=has_terminal, is_bound=place.is_binding)
        let_go_of_streams()
        report_start(reports, failure)
        code = _wait_for(main, place, reports)
    except OSError as problem:
        report_problem(reports, problem)
    finally:
        os._exit(code)


def _wait_for(main: int, place: Place, reports: int) -> int:
    while True:
        number = signal.sigwait(BLOCKED)
        if number == signal.SIGCHLD:
            status = reaped(main)
            if status is not None:
                code, ended_by = ending(status)
                place.kill_all()
                report(reports, {"code": code, "signal": ended_by})
                return code
            continue
        with suppress(ProcessLookupError):
            if number == END_ALL:
                os.killpg(main, signal.SIGKILL)
                place.kill_all()
            else:
                os.kill(main, number)
