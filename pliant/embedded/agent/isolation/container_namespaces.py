"""The namespaces in which the shim of a container or session runs its program."""

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
    """The namespaces of one container, as used by one shim."""

    needs_parent_death_signal: bool
    """Whether the program needs a signal to exit with its shim."""

    def enter(self) -> None:
        """Enter the namespaces, with signals blocked and all descriptors still open."""

    def setup_rootfs(self) -> None:
        """Build the root file system of the program."""

    def kill_all(self) -> None:
        """Kill every process of the container except the shim."""

    def list_pids(self) -> list[str]:
        """List the processes of the container as directory names in /proc; the shim is left out."""


class NewNamespaces:
    """New namespaces for a container; its shim is the first process of the PID namespace."""

    needs_parent_death_signal = False

    def __init__(self, pod_namespaces: Sequence[tuple[int, int]], rootfs_dir: str, mounts: Sequence[MountSpec]) -> None:
        self._pod_namespaces = pod_namespaces
        self._rootfs_dir = rootfs_dir
        self._mounts = mounts

    def enter(self) -> None:
        for namespace_fd, namespace_type in self._pod_namespaces:
            syscalls.setns(namespace_fd, namespace_type)
        syscalls.unshare(syscalls.CLONE_NEWNS)

    def setup_rootfs(self) -> None:
        pivot_into_rootfs(self._rootfs_dir, self._mounts)

    def kill_all(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)

    def list_pids(self) -> list[str]:
        # Without this check, a /proc of the host would list the processes of the host.
        return process_usage.list_namespace_pids() if process_usage.is_proc_of_own_namespace() else []


class JoinedNamespaces:
    """The namespaces of a running container, for a session; the session's shim stays outside."""

    needs_parent_death_signal = True

    def __init__(self, container_pidfd: int) -> None:
        self._container_pidfd = container_pidfd

    def enter(self) -> None:
        syscalls.setns(self._container_pidfd, _CONTAINER_NAMESPACES)
        os.close(self._container_pidfd)

    def setup_rootfs(self) -> None:
        """Do nothing: the container has built it."""

    def kill_all(self) -> None:
        """Do nothing: only the process group of a session can be told from the container's processes."""

    def list_pids(self) -> list[str]:
        return []  # The container counts them.
