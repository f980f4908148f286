"""Where a container runs, as its first process and the watchers of its sessions know it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from pliant.embedded.agent import footprint, syscalls
from pliant.embedded.agent.rootfs import Mount, enter_root

_ALL = syscalls.NEW_MOUNTS | syscalls.NEW_PIDS | syscalls.NEW_NETWORK | syscalls.NEW_HOSTNAME | syscalls.NEW_IPC


class Place(Protocol):
    """How to get there, what it looks like, and who belongs to it; used by one process."""

    is_binding: bool
    """Whether the program must be told to die with the one who watches it."""

    def enter(self) -> None:
        """Stand there, with the signals blocked and every descriptor still open."""

    def furnish(self) -> None:
        """Make it look as the program expects."""

    def kill_all(self) -> None:
        """Kill every process there but this one."""

    def members(self) -> list[str]:
        """Those processes, as far as they can be seen: their numbers in /proc."""


class Own:
    """Namespaces that are made for a container; its first process is the first one in them."""

    is_binding = False

    def __init__(self, shared: Sequence[tuple[int, int]], stage: str, mounts: Sequence[Mount]) -> None:
        self._shared = shared
        self._stage = stage
        self._mounts = mounts

    def enter(self) -> None:
        """Join the rest of the pod; files are one's own affair."""
        for namespace, kind in self._shared:
            syscalls.setns(namespace, kind)
        syscalls.unshare(syscalls.NEW_MOUNTS)

    def furnish(self) -> None:
        """Show the host's files with the container's mounts in place."""
        enter_root(self._stage, self._mounts)

    def kill_all(self) -> None:
        """Kill everybody in the PID namespace."""
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)

    def members(self) -> list[str]:
        """Everybody in the PID namespace, where /proc shows it."""
        return footprint.everybody() if footprint.is_seen() else []


class Another:
    """The namespaces of a container that runs, for one more program; who watches it stays outside."""

    is_binding = True

    def __init__(self, container: int) -> None:
        self._container = container

    def enter(self) -> None:
        """Join the container; the descriptor that names it is used up."""
        syscalls.setns(self._container, _ALL)
        os.close(self._container)

    def furnish(self) -> None:
        """All is there."""

    def kill_all(self) -> None:
        """The program's group is all that can be told from the container's own processes."""

    def members(self) -> list[str]:
        """What belongs to a session counts as the container's."""
        return []
