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

from pliant.embedded.agent import family, leftovers, syscalls
from pliant.embedded.agent.container import Command, spawn
from pliant.embedded.agent.process import END_ALL, NOT_STARTED, Program
from pliant.embedded.agent.sandbox import Sandbox
from pliant.embedded.agent.session import open_session

_BLOCKS = range(64, 254, 2)
_CLAIM = 6443


class Here:
    """This machine as it is; to a container belongs what descends from the process that watches over it."""

    is_binding = True

    def __init__(self, agent: int) -> None:
        self._agent = agent

    def enter(self) -> None:
        """Take in orphans from now on, and be told when the agent ends."""
        syscalls.die_with_parent(END_ALL)
        if os.getppid() != self._agent:
            os._exit(NOT_STARTED)  # it has ended already
        syscalls.adopt_orphans()

    def furnish(self) -> None:
        """All is as it is."""

    def kill_all(self) -> None:
        """Kill all that descends from here."""
        family.kill_below(os.getpid())

    def members(self) -> list[str]:
        """All that descends from here."""
        return [str(each) for each in family.glimpsed(os.getpid())]


class BareGround:
    """Pods that have nothing of their own but an address of the loopback."""

    def __init__(self, claim: socket.socket) -> None:
        self._claim = claim
        self._here = Here(os.getpid())
        self._mark = leftovers.own_mark()

    @classmethod
    def taken(cls, parent: int) -> BareGround:
        """The ground for one agent, with a block of addresses that no other cluster has.

        There is no request to die with the parent: its end is heard, and all that runs must be ended first.
        """
        if os.getppid() != parent:
            sys.exit("the parent ended before its node agent began")
        syscalls.adopt_orphans()
        leftovers.sweep()
        return cls(_claimed())

    @property
    def address(self) -> str:
        """The first address of the block."""
        return str(self._claim.getsockname()[0])

    def make(self, pod: str, hostname: str, *, own_network: bool, address: str) -> Sandbox:
        """Nothing but the address that the parent chose."""
        return Sandbox(address if own_network and address else self.address, "")

    def release(self, sandbox: Sandbox) -> None:
        """There is nothing to take away."""

    def start(self, command: Command, sandbox: Sandbox) -> tuple[int, int]:
        """Start a container as a process of this machine."""
        command["env"][leftovers.VARIABLE] = self._mark
        return spawn(command, self._here)

    def join(
        self, program: Program, container: int, streams: Sequence[int], *, has_terminal: bool
    ) -> tuple[int, int]:
        """Start a program of which only we know that it belongs to a container."""
        return open_session(program, self._here, streams, has_terminal=has_terminal)

    def signal_all(self, first: int, number: int) -> None:
        """Reach all that descends from a watcher, one after the other."""
        family.signal_all(first, number)

    def kill(self, watcher: int) -> None:
        """Have it kill all that descends from it."""
        os.kill(watcher, END_ALL)

    def leave(self, session: int) -> None:
        """End it, as the kernel would."""
        self.kill(session)

    def tidy(self, known: set[int]) -> None:
        """Kill and reap orphans that came to this process because their watcher was killed."""
        family.end_own(known)

    def standing(self, sandbox: Sandbox | None, *, outside: bool) -> AbstractContextManager[None]:
        """There is one network."""
        return nullcontext()

    def processes(self) -> str:
        """Those of this machine."""
        return "/proc"

    def close(self) -> None:
        """End everything below this process."""
        family.end_own()


def _claimed() -> socket.socket:
    """A socket that nobody else can have at the same time, at the first address of the block it stands for."""
    for block in _BLOCKS:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.bind((f"127.{block}.0.1", _CLAIM))
        except OSError:
            sock.close()
        else:
            return sock
    raise OSError(0, f"no addresses are left: port {_CLAIM} (UDP) is taken at all of 127.64.0.1 to 127.252.0.1")
