"""What pods stand on: namespaces of their own, or this machine as it is."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.brood import Brood
from pliant.embedded.agent.container import Command
from pliant.embedded.agent.crowd import signal_all
from pliant.embedded.agent.place import Another
from pliant.embedded.agent.process import Program
from pliant.embedded.agent.sandbox import Network, Sandbox
from pliant.embedded.agent.session import open_session


class Ground(Protocol):
    """Makes pods, starts programs in them, and reaches all processes of one."""

    def make(self, pod: str, hostname: str, *, own_network: bool, address: str) -> Sandbox:
        """What the containers of a pod share; the address is the parent's choice where it makes one."""

    def release(self, sandbox: Sandbox) -> None:
        """Take that away again."""

    def start(self, command: Command, sandbox: Sandbox) -> tuple[int, int]:
        """Start a container; its first process's id and the pipe on which that reports."""

    def join(
        self, program: Program, container: int, streams: Sequence[int], *, has_terminal: bool
    ) -> tuple[int, int]:
        """Start a program beside a container's first process; its watcher's id and the pipe on which it tells."""

    def signal_all(self, first: int, number: int) -> None:
        """Send a signal to all processes of a container but its first."""

    def kill(self, watcher: int) -> None:
        """Kill a container or a session with all that belongs to it."""

    def leave(self, session: int) -> None:
        """See to a session whose container has ended."""

    def tidy(self, known: set[int]) -> None:
        """Kill what somebody has left behind who should have taken it along; those known are left alone."""

    def standing(self, sandbox: Sandbox | None, *, outside: bool) -> AbstractContextManager[None]:
        """Stand, for the length of a block, in the network of a pod, outside of all, or here."""

    def processes(self) -> str:
        """A folder as /proc that shows all processes of pods."""


class PrivateGround:
    """Namespaces for every pod: the kernel ends what is in them."""

    def __init__(self, network: Network, stage: str) -> None:
        self._network = network
        self._stage = stage
        self._brood = Brood(stage)
        self._processes = ""

    def make(self, pod: str, hostname: str, *, own_network: bool, address: str) -> Sandbox:
        """Fresh namespaces with an address on the bridge."""
        return self._network.make_sandbox(pod, hostname, own_network=own_network)

    def release(self, sandbox: Sandbox) -> None:
        """Close the namespaces."""
        self._network.release(sandbox)

    def start(self, command: Command, sandbox: Sandbox) -> tuple[int, int]:
        """Start a container in a PID namespace and a mount namespace of its own."""
        for each in command["mounts"]:
            if each.get("memory"):
                each["source"] = f"{sandbox.memory}/{each['memory']}"
                os.makedirs(each["source"], exist_ok=True)
        return self._brood.start(command, sandbox.namespaces)

    def join(
        self, program: Program, container: int, streams: Sequence[int], *, has_terminal: bool
    ) -> tuple[int, int]:
        """Start a program in the namespaces of a container."""
        handle = os.pidfd_open(container)
        try:
            return open_session(program, Another(handle), streams, has_terminal=has_terminal)
        finally:
            os.close(handle)

    def signal_all(self, first: int, number: int) -> None:
        """Reach everybody in a PID namespace in one step."""
        signal_all(first, number)

    def kill(self, watcher: int) -> None:
        """Kill the first process; the kernel kills the others with it."""
        os.kill(watcher, signal.SIGKILL)

    def leave(self, session: int) -> None:
        """Nothing is left to do: what is in a PID namespace ends with it."""

    def tidy(self, known: set[int]) -> None:
        """Nobody can leave anything behind."""

    def standing(self, sandbox: Sandbox | None, *, outside: bool) -> AbstractContextManager[None]:
        """Stand in another network namespace, or in the one of the bridge."""
        if sandbox is not None:
            return self._network.inside(sandbox)
        return self._network.outside() if outside else nullcontext()

    def processes(self) -> str:
        """Our own mount of /proc, made when it is asked for."""
        if not self._processes:
            folder = self._stage + ".proc"
            os.makedirs(folder, exist_ok=True)
            syscalls.mount("proc", folder, "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
            self._processes = folder
        return self._processes
