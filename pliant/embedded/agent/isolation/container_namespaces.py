"""The namespaces in which the shim of a container or session runs its program."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.container import process_usage
from pliant.embedded.agent.container.config import Mount
from pliant.embedded.agent.container.process import KILL_ALL_SIGNAL, START_FAILED_EXIT_CODE
from pliant.embedded.agent.isolation import process_tree
from pliant.embedded.agent.isolation.rootfs import pivot_into_rootfs


class ContainerNamespaces:
    """The namespaces of one container, as used by one shim."""

    needs_parent_death_signal = True
    """Whether the program needs a signal to exit with its shim."""

    def prepare_shim(self) -> None:
        """Enter the namespaces, with signals blocked and all descriptors still open."""
        raise NotImplementedError

    def setup_rootfs(self) -> None:
        """Build the root file system of the program, unless it exists."""

    def note_main_process(self, pid: int) -> None:
        """Note the pid of the program, as the shim sees it."""

    def kill_container_processes(self) -> None:
        """Kill every process of the container except the shim, where these processes can be identified."""

    def list_container_pids(self) -> list[str]:
        """List the processes of the container, except the shim, as directory names in /proc."""
        return []


class NewNamespaces(ContainerNamespaces):
    """New namespaces for a container; its shim is the first process of the PID namespace."""

    needs_parent_death_signal = False

    def __init__(self, pod_namespaces: Sequence[tuple[int, int]], rootfs_dir: str, mounts: Sequence[Mount]) -> None:
        self._pod_namespaces = pod_namespaces
        self._rootfs_dir = rootfs_dir
        self._mounts = mounts

    def prepare_shim(self) -> None:
        for namespace_fd, namespace_type in self._pod_namespaces:
            syscalls.setns(namespace_fd, namespace_type)
        syscalls.unshare(syscalls.CLONE_NEWNS)

    def setup_rootfs(self) -> None:
        pivot_into_rootfs(self._rootfs_dir, self._mounts)

    def kill_container_processes(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)

    def list_container_pids(self) -> list[str]:
        return process_usage.list_namespace_pids()


class TargetNamespaces(NewNamespaces):
    """New namespaces for an ephemeral container, except the PID namespace, which is that of another container.

    The shim stays outside of this PID namespace. The kernel kills the program when the other container ends.
    """

    needs_parent_death_signal = True

    def __init__(
        self, target_pidfd: int, pod_namespaces: Sequence[tuple[int, int]], rootfs_dir: str, mounts: Sequence[Mount]
    ) -> None:
        super().__init__(pod_namespaces, rootfs_dir, mounts)
        self._target_pidfd = target_pidfd
        self._main_pid = 0

    def prepare_shim(self) -> None:
        syscalls.setns(self._target_pidfd, syscalls.CLONE_NEWPID)
        os.close(self._target_pidfd)
        super().prepare_shim()

    def note_main_process(self, pid: int) -> None:
        self._main_pid = pid

    def kill_container_processes(self) -> None:
        """Kill the process group of the program; other processes belong to the other container."""
        with suppress(ProcessLookupError):
            os.killpg(self._main_pid, signal.SIGKILL)

    def list_container_pids(self) -> list[str]:
        return []


class JoinedNamespaces(ContainerNamespaces):
    """The namespaces of a running container, for a session; the session's shim stays outside."""

    def __init__(self, container_pidfd: int, pid_namespace_pidfd: int) -> None:
        self._container_pidfd = container_pidfd
        self._pid_namespace_pidfd = pid_namespace_pidfd

    def prepare_shim(self) -> None:
        syscalls.setns(self._pid_namespace_pidfd, syscalls.CLONE_NEWPID)
        syscalls.setns(self._container_pidfd, syscalls.CONTAINER_NAMESPACE_FLAGS & ~syscalls.CLONE_NEWPID)
        for pidfd in {self._container_pidfd, self._pid_namespace_pidfd}:
            os.close(pidfd)


class HostNamespaces(ContainerNamespaces):
    """The namespaces of the host; the descendants of the shim belong to the container."""

    def __init__(self, agent_pid: int) -> None:
        self._agent_pid = agent_pid

    def prepare_shim(self) -> None:
        syscalls.set_parent_death_signal(KILL_ALL_SIGNAL)
        if os.getppid() != self._agent_pid:
            os._exit(START_FAILED_EXIT_CODE)  # The agent exited before the signal was set.
        syscalls.become_subreaper()

    def kill_container_processes(self) -> None:
        process_tree.kill_descendants(os.getpid())

    def list_container_pids(self) -> list[str]:
        return [str(pid) for pid in process_tree.list_descendants_fast(os.getpid())]
