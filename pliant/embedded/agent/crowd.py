"""Reach every process of a container at once."""

from __future__ import annotations

import os
from contextlib import suppress

from pliant.embedded.agent import syscalls

_EVERYBODY = -1


def signal_all(first: int, number: int) -> None:
    """Send a signal to all processes of a container but its first, in one step that nobody can fork away from."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(first)
        try:
            child = os.fork()
            if child == 0:
                _enter_and_signal(handle, number)
            os.waitpid(child, 0)
        finally:
            os.close(handle)


def _enter_and_signal(container: int, number: int) -> None:
    """Only a process inside can mean everybody inside."""
    try:
        syscalls.setns(container, syscalls.NEW_PIDS)
        messenger = os.fork()
        if messenger == 0:
            os.kill(_EVERYBODY, number)
            os._exit(0)
        os.waitpid(messenger, 0)
    finally:
        os._exit(0)
