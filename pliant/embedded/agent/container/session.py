"""The shim of a session: one more command in a running container, as for `kubectl exec`.

The three descriptors of its standard streams arrive on the descriptor socket, in one message that holds the request
id. The command gets the namespaces, environment and working directory of the container. With `tty`, its stdin must be
the inner end of a pseudo-terminal, which becomes its controlling terminal. SIGKILL kills the process group of the
session, or all its descendants in the host network mode. A container that exits takes its sessions along.
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
    fork_with_report_pipe,
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
    """Start a program in the namespaces of a container; return the pid of its shim and its report descriptor."""

    def run(report_fd: int) -> NoReturn:
        _run_session_shim(program, namespaces, stdio_fds, report_fd, has_terminal=has_terminal)

    return fork_with_report_pipe(run)


def _run_session_shim(
    program: Program, namespaces: ContainerNamespaces, stdio_fds: Sequence[int], report_fd: int, *, has_terminal: bool
) -> NoReturn:
    code = START_FAILED_EXIT_CODE
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED_SIGNALS)
        for target, source in enumerate(stdio_fds):
            os.dup2(source, target)
        namespaces.enter()
        close_other_descriptors(report_fd)
        main_pid, failure = start_program(
            program, has_terminal=has_terminal, dies_with_parent=namespaces.needs_parent_death_signal
        )
        redirect_streams_to_null()
        report_started(report_fd, failure)
        code = _supervise_session(main_pid, namespaces, report_fd)
    except OSError as error:
        report_error(report_fd, error)
    finally:
        os._exit(code)


def _supervise_session(main_pid: int, namespaces: ContainerNamespaces, report_fd: int) -> int:
    """Forward signals to the command until it exits; report and return its exit code."""
    while True:
        number = signal.sigwait(BLOCKED_SIGNALS)
        if number == signal.SIGCHLD:
            status = reap_children(main_pid)
            if status is not None:
                code, signal_number = decode_wait_status(status)
                namespaces.kill_all()
                send_report(report_fd, {"code": code, "signal": signal_number})
                return code
            continue
        with suppress(ProcessLookupError):
            if number == KILL_ALL_SIGNAL:
                os.killpg(main_pid, signal.SIGKILL)
                namespaces.kill_all()
            else:
                os.kill(main_pid, number)
