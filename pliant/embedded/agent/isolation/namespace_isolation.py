"""The interface for isolating pods, and its implementation with Linux namespaces."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Protocol

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.container.process import Program
from pliant.embedded.agent.container.session import fork_session
from pliant.embedded.agent.container.shim import ContainerSpec
from pliant.embedded.agent.isolation.container_namespaces import JoinedNamespaces
from pliant.embedded.agent.isolation.prefork_pool import PreforkPool
from pliant.embedded.agent.network.sandbox import PodBridge, Sandbox

_ALL_PIDS = -1


class Isolation(Protocol):
    """Creates pod sandboxes, starts containers and sessions in them, and signals their processes."""

    def create_sandbox(self, pod_uid: str, hostname: str, *, own_network: bool, address: str) -> Sandbox:
        """Create the sandbox that the containers of a pod share; the address is the kubelet's choice, if any."""

    def remove_sandbox(self, sandbox: Sandbox) -> None: ...

    def start_container(self, spec: ContainerSpec, sandbox: Sandbox) -> tuple[int, int]:
        """Start a container and return the pid of its shim and its report descriptor."""

    def start_session(
        self, program: Program, container_pid: int, streams: Sequence[int], *, has_terminal: bool
    ) -> tuple[int, int]:
        """Start a program in a running container and return the pid of its shim and its report descriptor."""

    def signal_container(self, shim_pid: int, signal_number: int) -> None:
        """Send a signal to all processes of a container except its shim."""

    def kill_shim(self, shim_pid: int) -> None:
        """Kill a container or session with all its processes."""

    def end_session(self, shim_pid: int) -> None:
        """Kill a session whose container has exited, unless the kernel does it."""

    def kill_leftovers(self, known_pids: set[int]) -> None:
        """Kill processes that outlived their shim, except those in `known_pids`."""

    def enter_network(self, sandbox: Sandbox | None, *, in_egress: bool) -> AbstractContextManager[None]:
        """Enter the network of a pod, the egress network, or the agent's own, within the context."""

    def proc_dir(self) -> str:
        """Return a /proc directory that lists the processes of all pods."""


class NamespaceIsolation:
    """Runs each pod in its own namespaces; the kernel kills the processes in them."""

    def __init__(self, network: PodBridge, rootfs_dir: str) -> None:
        self._network = network
        self._rootfs_dir = rootfs_dir
        self._prefork_pool = PreforkPool(rootfs_dir)
        self._proc_dir = ""

    def create_sandbox(self, pod_uid: str, hostname: str, *, own_network: bool, address: str) -> Sandbox:
        return self._network.create_sandbox(pod_uid, hostname, own_network=own_network)

    def remove_sandbox(self, sandbox: Sandbox) -> None:
        self._network.remove_sandbox(sandbox)

    def start_container(self, spec: ContainerSpec, sandbox: Sandbox) -> tuple[int, int]:
        for mount in spec["mounts"]:
            if mount.get("memory_name"):
                mount["source"] = f"{sandbox.memory_dir}/{mount['memory_name']}"
                os.makedirs(mount["source"], exist_ok=True)
        return self._prefork_pool.start_container(spec, sandbox.namespaces)

    def start_session(
        self, program: Program, container_pid: int, streams: Sequence[int], *, has_terminal: bool
    ) -> tuple[int, int]:
        pidfd = os.pidfd_open(container_pid)
        try:
            return fork_session(program, JoinedNamespaces(pidfd), streams, has_terminal=has_terminal)
        finally:
            os.close(pidfd)

    def signal_container(self, shim_pid: int, signal_number: int) -> None:
        signal_pid_namespace(shim_pid, signal_number)

    def kill_shim(self, shim_pid: int) -> None:
        os.kill(shim_pid, signal.SIGKILL)  # The kernel kills the rest of the PID namespace.

    def end_session(self, shim_pid: int) -> None:
        """Do nothing: the kernel kills all processes of a PID namespace."""

    def kill_leftovers(self, known_pids: set[int]) -> None:
        """Do nothing: no process outlives its PID namespace."""

    def enter_network(self, sandbox: Sandbox | None, *, in_egress: bool) -> AbstractContextManager[None]:
        if sandbox is not None:
            return self._network.in_sandbox_network(sandbox)
        return self._network.in_egress_network() if in_egress else nullcontext()

    def proc_dir(self) -> str:
        """Mount the agent's own /proc on first use and return it."""
        if not self._proc_dir:
            directory = self._rootfs_dir + ".proc"
            os.makedirs(directory, exist_ok=True)
            syscalls.mount("proc", directory, "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
            self._proc_dir = directory
        return self._proc_dir


def signal_pid_namespace(shim_pid: int, signal_number: int) -> None:
    """Send a signal to all processes of a PID namespace except the first, in one step that no fork can escape."""
    with suppress(ProcessLookupError):
        pidfd = os.pidfd_open(shim_pid)
        try:
            child = os.fork()
            if child == 0:
                _enter_and_signal(pidfd, signal_number)
            os.waitpid(child, 0)
        finally:
            os.close(pidfd)


def _enter_and_signal(container_pidfd: int, signal_number: int) -> None:
    """Send the signal from a process inside the namespace: only there does -1 mean all its processes."""
    try:
        syscalls.setns(container_pidfd, syscalls.CLONE_NEWPID)
        sender = os.fork()
        if sender == 0:
            os.kill(_ALL_PIDS, signal_number)
            os._exit(0)
        os.waitpid(sender, 0)
    finally:
        os._exit(0)
