"""Where a container runs, as its first process and the watchers of its sessions know it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.container import process_usage
from pliant.embedded.agent.isolation.rootfs import MountSpec, pivot_into_rootfs

_CONTAINER_NAMESPACES = (
    syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC
)


class ContainerNamespaces(Protocol):
    """How to get there, what it looks like, and who belongs to it; used by one process."""

    needs_parent_death_signal: bool
    """Whether the program must be told to die with the one who watches it."""

    def enter(self) -> None:
        """Stand there, with the signals blocked and every descriptor still open."""

    def setup_rootfs(self) -> None:
        """Make it look as the program expects."""

    def kill_all(self) -> None:
        """Kill every process there but this one."""

    def list_pids(self) -> list[str]:
        """Those processes, as far as they can be seen: their numbers in /proc."""


class NewNamespaces:
    """Namespaces that are made for a container; its first process is the first one in them."""

    needs_parent_death_signal = False

    def __init__(self, pod_namespaces: Sequence[tuple[int, int]], rootfs_dir: str, mounts: Sequence[MountSpec]) -> None:
        self._pod_namespaces = pod_namespaces
        self._rootfs_dir = rootfs_dir
        self._mounts = mounts

    def enter(self) -> None:
        """Join the rest of the pod; files are one's own affair."""
        for namespace, kind in self._pod_namespaces:
            syscalls.setns(namespace, kind)
        syscalls.unshare(syscalls.CLONE_NEWNS)

    def setup_rootfs(self) -> None:
        """Show the host's files with the container's mounts in place."""
        pivot_into_rootfs(self._rootfs_dir, self._mounts)

    def kill_all(self) -> None:
        """Kill everybody in the PID namespace."""
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)

    def list_pids(self) -> list[str]:
        """Everybody in the PID namespace, where /proc shows it."""
        return process_usage.list_namespace_pids() if process_usage.is_proc_of_own_namespace() else []


class JoinedNamespaces:
    """The namespaces of a container that runs, for one more program; who watches it stays outside."""

    needs_parent_death_signal = True

    def __init__(self, container_pidfd: int) -> None:
        self._container_pidfd = container_pidfd

    def enter(self) -> None:
        """Join the container; the descriptor that names it is used up."""
        syscalls.setns(self._container_pidfd, _CONTAINER_NAMESPACES)
        os.close(self._container_pidfd)

    def setup_rootfs(self) -> None:
        """All is there."""

    def kill_all(self) -> None:
        """The program's group is all that can be told from the container's own processes."""

    def list_pids(self) -> list[str]:
        """What belongs to a session counts as the container's."""
        return []
