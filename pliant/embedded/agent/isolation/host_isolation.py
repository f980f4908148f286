"""Pods without namespaces: plain processes of this machine that are kept together by descent.

Every watcher takes in the orphans below it and ends all of them before it goes; it is told to by a signal when the
agent ends. The agent takes in what a watcher leaves behind that was killed, and ends that.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.container.process import KILL_ALL_SIGNAL, START_FAILED_EXIT_CODE, Program
from pliant.embedded.agent.container.session import fork_session
from pliant.embedded.agent.container.shim import ContainerSpec, fork_shim
from pliant.embedded.agent.isolation import process_tree
from pliant.embedded.agent.network.sandbox import Sandbox

_LOOPBACK_BLOCKS = range(64, 254, 2)
_LOCK_PORT = 6443


class HostNamespaces:
    """This machine as it is; to a container belongs what descends from the process that watches over it."""

    needs_parent_death_signal = True

    def __init__(self, agent_pid: int) -> None:
        self._agent_pid = agent_pid

    def enter(self) -> None:
        """Take in orphans from now on, and be told when the agent ends."""
        syscalls.set_parent_death_signal(KILL_ALL_SIGNAL)
        if os.getppid() != self._agent_pid:
            os._exit(START_FAILED_EXIT_CODE)  # it has ended already
        syscalls.become_subreaper()

    def setup_rootfs(self) -> None:
        """All is as it is."""

    def kill_all(self) -> None:
        """Kill all that descends from here."""
        process_tree.kill_descendants(os.getpid())

    def list_pids(self) -> list[str]:
        """All that descends from here."""
        return [str(each) for each in process_tree.list_descendants_fast(os.getpid())]


class HostIsolation:
    """Pods that have nothing of their own but an address of the loopback."""

    def __init__(self, lock_socket: socket.socket) -> None:
        self._lock_socket = lock_socket
        self._namespaces = HostNamespaces(os.getpid())
        self._agent_id = process_tree.own_agent_id()

    @classmethod
    def acquire(cls, parent_pid: int) -> HostIsolation:
        """The ground for one agent, with a block of addresses that no other cluster has.

        There is no request to die with the parent: its end is heard, and all that runs must be ended first.
        """
        if os.getppid() != parent_pid:
            sys.exit("the parent ended before its node agent began")
        syscalls.become_subreaper()
        process_tree.kill_stale_processes()
        return cls(_lock_loopback_block())

    @property
    def gateway_address(self) -> str:
        """The first address of the block."""
        return str(self._lock_socket.getsockname()[0])

    def create_sandbox(self, pod_uid: str, hostname: str, *, own_network: bool, address: str) -> Sandbox:
        """Nothing but the address that the parent chose."""
        return Sandbox(address if own_network and address else self.gateway_address, "")

    def remove_sandbox(self, sandbox: Sandbox) -> None:
        """There is nothing to take away."""

    def start_container(self, spec: ContainerSpec, sandbox: Sandbox) -> tuple[int, int]:
        """Start a container as a process of this machine."""
        spec["env"][process_tree.AGENT_ID_VARIABLE] = self._agent_id
        return fork_shim(spec, self._namespaces)

    def start_session(
        self, program: Program, container_pid: int, streams: Sequence[int], *, has_terminal: bool
    ) -> tuple[int, int]:
        """Start a program of which only we know that it belongs to a container."""
        return fork_session(program, self._namespaces, streams, has_terminal=has_terminal)

    def signal_container(self, shim_pid: int, signal_number: int) -> None:
        """Reach all that descends from a watcher, one after the other."""
        process_tree.signal_descendants(shim_pid, signal_number)

    def kill_shim(self, shim_pid: int) -> None:
        """Have it kill all that descends from it."""
        os.kill(shim_pid, KILL_ALL_SIGNAL)

    def end_session(self, shim_pid: int) -> None:
        """End it, as the kernel would."""
        self.kill_shim(shim_pid)

    def kill_leftovers(self, known_pids: set[int]) -> None:
        """Kill and reap orphans that came to this process because their watcher was killed."""
        process_tree.kill_own_children(known_pids)

    def enter_network(self, sandbox: Sandbox | None, *, in_egress: bool) -> AbstractContextManager[None]:
        """There is one network."""
        return nullcontext()

    def proc_dir(self) -> str:
        """Those of this machine."""
        return "/proc"

    def close(self) -> None:
        """End everything below this process."""
        process_tree.kill_own_children()


def _lock_loopback_block() -> socket.socket:
    """A socket that nobody else can have at the same time, at the first address of the block it stands for."""
    for block in _LOOPBACK_BLOCKS:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.bind((f"127.{block}.0.1", _LOCK_PORT))
        except OSError:
            sock.close()
        else:
            return sock
    raise OSError(0, f"no addresses are left: port {_LOCK_PORT} (UDP) is taken at all of 127.64.0.1 to 127.252.0.1")
