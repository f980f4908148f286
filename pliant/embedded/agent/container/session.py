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

from pliant.embedded.agent.container.process import (
    BLOCKED_SIGNALS,
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
from pliant.embedded.agent.isolation.container_namespaces import ContainerNamespaces


def fork_session(
    program: Program, namespaces: ContainerNamespaces, stdio_fds: Sequence[int], *, has_terminal: bool
) -> tuple[int, int]:
    """Start a program in the place of a container; its watcher's id and the pipe on which that reports."""
    reports, ours = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reports)
        os.close(ours)
        raise
    if child == 0:
        _run_session_shim(program, namespaces, stdio_fds, ours, has_terminal=has_terminal)
    os.close(ours)
    return child, reports


def _run_session_shim(
    program: Program, namespaces: ContainerNamespaces, stdio_fds: Sequence[int], report_fd: int, *, has_terminal: bool
) -> NoReturn:
    """Start the program and wait for its end, as a process that does not belong to the container."""
    code = START_FAILED_EXIT_CODE
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED_SIGNALS)
        for target, source in enumerate(stdio_fds):
            os.dup2(source, target)
        namespaces.enter()
        close_other_descriptors(report_fd)
        main, failure = start_program(
            program, has_terminal=has_terminal, dies_with_parent=namespaces.needs_parent_death_signal
        )
        redirect_streams_to_null()
        report_started(report_fd, failure)
        code = _supervise_session(main, namespaces, report_fd)
    except OSError as problem:
        report_error(report_fd, problem)
    finally:
        os._exit(code)


def _supervise_session(main_pid: int, namespaces: ContainerNamespaces, report_fd: int) -> int:
    while True:
        number = signal.sigwait(BLOCKED_SIGNALS)
        if number == signal.SIGCHLD:
            status = reap_children(main_pid)
            if status is not None:
                code, ended_by = decode_wait_status(status)
                namespaces.kill_all()
                send_report(report_fd, {"code": code, "signal": ended_by})
                return code
            continue
        with suppress(ProcessLookupError):
            if number == KILL_ALL_SIGNAL:
                os.killpg(main_pid, signal.SIGKILL)
                namespaces.kill_all()
            else:
                os.kill(main_pid, number)
