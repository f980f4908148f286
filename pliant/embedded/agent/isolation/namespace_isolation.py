"""What pods stand on: namespaces of their own, or this machine as it is."""

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


class Isolation(Protocol):
    """Makes pods, starts programs in them, and reaches all processes of one."""

    def create_sandbox(self, pod_uid: str, hostname: str, *, own_network: bool, address: str) -> Sandbox:
        """What the containers of a pod share; the address is the parent's choice where it makes one."""

    def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Take that away again."""

    def start_container(self, spec: ContainerSpec, sandbox: Sandbox) -> tuple[int, int]:
        """Start a container; its first process's id and the pipe on which that reports."""

    def start_session(
        self, program: Program, container_pid: int, streams: Sequence[int], *, has_terminal: bool
    ) -> tuple[int, int]:
        """Start a program beside a container's first process; its watcher's id and the pipe on which it tells."""

    def signal_container(self, shim_pid: int, signal_number: int) -> None:
        """Send a signal to all processes of a container but its first."""

    def kill_shim(self, shim_pid: int) -> None:
        """Kill a container or a session with all that belongs to it."""

    def end_session(self, shim_pid: int) -> None:
        """See to a session whose container has ended."""

    def kill_leftovers(self, known_pids: set[int]) -> None:
        """Kill what somebody has left behind who should have taken it along; those known are left alone."""

    def enter_network(self, sandbox: Sandbox | None, *, in_egress: bool) -> AbstractContextManager[None]:
        """Stand, for the length of a block, in the network of a pod, outside of all, or here."""

    def proc_dir(self) -> str:
        """A folder as /proc that shows all processes of pods."""


class NamespaceIsolation:
    """Namespaces for every pod: the kernel ends what is in them."""

    def __init__(self, network: PodBridge, rootfs_dir: str) -> None:
        self._network = network
        self._rootfs_dir = rootfs_dir
        self._prefork_pool = PreforkPool(rootfs_dir)
        self._proc_dir = ""

    def create_sandbox(self, pod_uid: str, hostname: str, *, own_network: bool, address: str) -> Sandbox:
        """Fresh namespaces with an address on the bridge."""
        return self._network.create_sandbox(pod_uid, hostname, own_network=own_network)

    def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Close the namespaces."""
        self._network.remove_sandbox(sandbox)

    def start_container(self, spec: ContainerSpec, sandbox: Sandbox) -> tuple[int, int]:
        """Start a container in a PID namespace and a mount namespace of its own."""
        for each in spec["mounts"]:
            if each.get("memory"):
                each["source"] = f"{sandbox.memory_dir}/{each['memory']}"
                os.makedirs(each["source"], exist_ok=True)
        return self._prefork_pool.start_container(spec, sandbox.namespaces)

    def start_session(
        self, program: Program, container_pid: int, streams: Sequence[int], *, has_terminal: bool
    ) -> tuple[int, int]:
        """Start a program in the namespaces of a container."""
        handle = os.pidfd_open(container_pid)
        try:
            return fork_session(program, JoinedNamespaces(handle), streams, has_terminal=has_terminal)
        finally:
            os.close(handle)

    def signal_container(self, shim_pid: int, signal_number: int) -> None:
        """Reach everybody in a PID namespace in one step."""
        signal_pid_namespace(shim_pid, signal_number)

    def kill_shim(self, shim_pid: int) -> None:
        """Kill the first process; the kernel kills the others with it."""
        os.kill(shim_pid, signal.SIGKILL)

    def end_session(self, shim_pid: int) -> None:
        """Nothing is left to do: what is in a PID namespace ends with it."""

    def kill_leftovers(self, known_pids: set[int]) -> None:
        """Nobody can leave anything behind."""

    def enter_network(self, sandbox: Sandbox | None, *, in_egress: bool) -> AbstractContextManager[None]:
        """Stand in another network namespace, or in the one of the bridge."""
        if sandbox is not None:
            return self._network.in_sandbox_network(sandbox)
        return self._network.in_egress_network() if in_egress else nullcontext()

    def proc_dir(self) -> str:
        """Our own mount of /proc, made when it is asked for."""
        if not self._proc_dir:
            folder = self._rootfs_dir + ".proc"
            os.makedirs(folder, exist_ok=True)
            syscalls.mount("proc", folder, "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
            self._proc_dir = folder
        return self._proc_dir


_ALL_PIDS = -1


def signal_pid_namespace(shim_pid: int, signal_number: int) -> None:
    """Send a signal to all processes of a container but its first, in one step that nobody can fork away from."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(shim_pid)
        try:
            child = os.fork()
            if child == 0:
                _enter_and_signal(handle, signal_number)
            os.waitpid(child, 0)
        finally:
            os.close(handle)


def _enter_and_signal(container_pidfd: int, signal_number: int) -> None:
    """Only a process inside can mean everybody inside."""
    try:
        syscalls.setns(container_pidfd, syscalls.CLONE_NEWPID)
        messenger = os.fork()
        if messenger == 0:
            os.kill(_ALL_PIDS, signal_number)
            os._exit(0)
        os.waitpid(messenger, 0)
    finally:
        os._exit(0)
