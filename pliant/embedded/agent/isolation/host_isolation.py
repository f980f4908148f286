"""Isolation for the host network mode: pods are plain processes, and a container is the descendants of its shim.

Each shim adopts its orphaned descendants and kills all of them before it exits; the kernel signals it to do so when
the agent exits. The agent adopts and kills the processes of a shim that was killed.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.container.config import ContainerConfig, Program
from pliant.embedded.agent.container.process import KILL_ALL_SIGNAL, ShimHandle
from pliant.embedded.agent.container.shim import fork_container_shim, fork_session_shim
from pliant.embedded.agent.isolation import process_tree
from pliant.embedded.agent.isolation.container_namespaces import HostNamespaces
from pliant.embedded.agent.network.sandbox import Sandbox

_LOOPBACK_BLOCKS = range(64, 254, 2)
_LOCK_PORT = 6443


class HostIsolation:
    """Runs pods as processes of the host; each pod gets a loopback address."""

    def __init__(self, lock_socket: socket.socket) -> None:
        self._lock_socket = lock_socket
        self._namespaces = HostNamespaces(os.getpid())
        self._agent_id = process_tree.own_agent_id()

    @classmethod
    def acquire_loopback_block(cls, parent_pid: int) -> HostIsolation:
        """Lock a block of loopback addresses that no other cluster uses.

        No parent-death signal is set: the agent detects the parent's exit and must kill all pods before it exits.
        """
        if os.getppid() != parent_pid:
            sys.exit("the parent process exited before the node agent started")
        syscalls.become_subreaper()
        process_tree.kill_dead_agents_processes()
        return cls(_lock_loopback_block())

    @property
    def gateway_address(self) -> str:
        """The first address of the block."""
        return str(self._lock_socket.getsockname()[0])

    def create_sandbox(self, pod_uid: str, hostname: str, *, own_network: bool, address: str) -> Sandbox:
        return Sandbox(address if own_network and address else self.gateway_address, "")

    def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Do nothing: the sandbox is only an address."""

    def start_container(self, config: ContainerConfig, sandbox: Sandbox, target_pid: int | None) -> ShimHandle:
        config["env"][process_tree.AGENT_ID_VARIABLE] = self._agent_id
        return fork_container_shim(config, self._namespaces)

    def start_session(
        self, program: Program, container_pids: tuple[int, int], stdio_fds: Sequence[int], *, has_terminal: bool
    ) -> ShimHandle:
        return fork_session_shim(program, self._namespaces, stdio_fds, has_terminal=has_terminal)

    def signal_container(self, shim_pid: int, signal_number: int) -> None:
        process_tree.signal_descendants(shim_pid, signal_number)

    def kill_run_by_shim(self, shim_pid: int) -> None:
        os.kill(shim_pid, KILL_ALL_SIGNAL)

    def kill_orphaned_session(self, shim_pid: int) -> None:
        self.kill_run_by_shim(shim_pid)

    def kill_unknown_children(self, known_pids: set[int]) -> None:
        process_tree.kill_own_children(known_pids)

    def enter_network(self, sandbox: Sandbox | None, *, in_egress: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def ensure_pods_proc_dir(self) -> str:
        return "/proc"

    def close(self) -> None:
        """Kill all pods."""
        process_tree.kill_own_children()


def _lock_loopback_block() -> socket.socket:
    """Return a socket bound to the first address of a free block; the bind keeps other agents out of the block."""
    for block in _LOOPBACK_BLOCKS:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.bind((f"127.{block}.0.1", _LOCK_PORT))
        except OSError:
            sock.close()
        else:
            return sock
    raise OSError(0, f"no loopback addresses are free: UDP port {_LOCK_PORT} is in use at 127.64.0.1 to 127.252.0.1")
