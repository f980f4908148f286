"""The parent's end of the node agent: start it, ask it to run containers, and end it with everything in it."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Self

from pliant.embedded.node.agentlife import AgentLife
from pliant.embedded.node.agentprocess import AgentLost, Launch, StartFailed
from pliant.embedded.node.channel import Channel
from pliant.embedded.node.commands import Command, Ending, Mount, Streams
from pliant.errors import NotPossibleHere

__all__ = ["AgentLost", "Command", "Ending", "Launch", "Mount", "NodeAgent", "Session", "StartFailed", "Streams"]

_BRIEFLY = 0.01
"""Seconds until the agent has made room for more descriptors."""


class Session:
    """A command that was started in a running container."""

    def __init__(self, agent: NodeAgent, pod: str, name: str, ending: asyncio.Future[Ending]) -> None:
        self.ending = ending
        self._agent = agent
        self._pod = pod
        self._name = name

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the command, or SIGKILL to its whole process group."""
        self._agent.send_signal(self._pod, self._name, number)


class NodeAgent:
    """Runs containers in the agent's namespaces; a container is named by its pod and a run name."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._life: AgentLife
        self.on_lost: Callable[[], None] = _nobody
        """Called as soon as the agent has died, before those who wait for what ran in it hear of that."""

    @classmethod
    @asynccontextmanager
    async def started(cls, launch: Launch) -> AsyncIterator[Self]:
        """An agent that is ready, and gone with all its pods when the context ends."""
        if sys.platform != "linux":
            raise NotPossibleHere(
                "pods are processes in Linux namespaces: run this on Linux, or in a Linux machine"
            )
        agent = cls(launch)
        await agent._begin()
        try:
            yield agent
        finally:
            await agent._life.end()

    async def revive(self) -> None:
        """Begin anew without any pod, after the agent was lost; nothing of the former one is left then."""
        await self._life.end()
        await self._begin()

    async def _begin(self) -> None:
        self._life = await AgentLife.begun(self._launch, lambda: self.on_lost())

    @property
    def address(self) -> str:
        """Its own on the bridge, or the first of its block where there is no bridge."""
        return self._life.hello.address

    @property
    def listener(self) -> socket.socket | None:
        """What was opened on the bridge for the API server, where there is one."""
        return self._life.hello.listener

    @property
    def process(self) -> int:
        """The number of its process."""
        return self._life.process.pid

    @property
    def is_lost(self) -> bool:
        """Whether it has died."""
        return self._channel.lost.done()

    @property
    def _channel(self) -> Channel:
        return self._life.channel

    async def make_pod(self, pod: str, hostname: str, *, own_network: bool = True, member: str = "") -> str:
        """Make a pod's shared namespaces; its address, or the agent's when it shares that one's network.

        The member, `namespace/name`, is whom the pod stands for: it may be known by its address.
        """
        return await self._made(pod, hostname, own_network=own_network)

    async def _made(self, pod: str, hostname: str, *, own_network: bool, address: str = "") -> str:
        answer = await self._channel.ask(
            "make", pod=pod, hostname=hostname, own_network=own_network, address=address
        )
        return str(answer["address"])

    async def start(self, pod: str, run: str, command: Command) -> asyncio.Future[Ending]:
        """Start a container; the future tells how it ended."""
        ending = self._channel.expect_end(pod, run)
        try:
            await self._channel.ask("start", pod=pod, run=run, command=command)
        except BaseException:
            self._channel.forget_end(pod, run)
            raise
        return ending

    async def execute(self, pod: str, run: str, argv: Sequence[str], streams: Streams) -> Session:
        """Start one more command in a running container, with that one's variables and working folder."""
        number = self._channel.next_number()
        name = f"{run}/session-{number}"
        await self._hand_over(number, streams)
        ending = self._channel.expect_end(pod, name)
        details = {"pod": pod, "run": run, "session": name, "argv": list(argv), "terminal": streams.terminal}
        try:
            await self._channel.ask("execute", number=number, **details)
        except BaseException:
            self._channel.forget_end(pod, name)
            raise
        return Session(self, pod, name, ending)

    async def _hand_over(self, number: int, streams: Streams) -> None:
        """Send descriptors ahead of the request that needs them."""
        descriptors = [streams.input, streams.output, streams.errors]
        while True:
            try:
                socket.send_fds(self._life.handover, [str(number).encode()], descriptors)
                return
            except BlockingIOError:
                await asyncio.sleep(_BRIEFLY)
            except OSError as problem:
                raise AgentLost("the node agent is gone") from problem

    def send_signal(self, pod: str, run: str, number: signal.Signals) -> None:
        """Send a signal to a container's command, or SIGKILL to all of it; one that has ended is left in peace."""
        self._channel.tell("signal", pod=pod, run=run, signal=number)

    def signal_all(self, pod: str, number: signal.Signals) -> None:
        """Send a signal to every process of a pod, but for those that only look after others."""
        self._channel.tell("signal_all", pod=pod, signal=number)

    async def is_heard(self, within: float) -> bool:
        """Whether the agent says anything within so many seconds: one that is busy answers others first."""
        try:
            async with asyncio.timeout(within):
                await self._channel.ask("ping")
        except TimeoutError:
            return asyncio.get_running_loop().time() - self._channel.heard_at < within
        except AgentLost:
            return False
        return True

    async def usage(self) -> list[tuple[str, str, float, int]]:
        """Of every container and session that runs: pod, name, seconds of CPU so far, bytes of memory held."""
        answer = await self._channel.ask("usage")
        return [(str(pod), str(name), float(cpu), int(memory)) for pod, name, cpu, memory in answer["usage"]]

    async def remove_pod(self, pod: str) -> None:
        """Kill what still runs in a pod and take its namespaces away; an agent that died took all of it along."""
        with suppress(AgentLost):
            await self._channel.ask("remove", pod=pod)

    async def open_socket(
        self, kind: str, address: str = "", port: int = 0, *, outside: bool = False, pod: str = ""
    ) -> socket.socket:
        """A `stream` or `datagram` socket of the pods' network; it listens where an address is given.

        One that stands `outside` hears what pods send to addresses that are neither pods nor services; one in a
        `pod` has that one's own network, loopback included.
        """
        life, number = self._life, self._channel.next_number()
        try:
            place = {"kind": kind, "address": address, "port": port, "outside": outside, "pod": pod}
            await self._channel.ask("open", number=number, **place)
        except StartFailed as problem:
            where = f" at {address}:{port}" if address else ""
            raise OSError(f"no socket could be opened{where}: {problem}") from problem
        except asyncio.CancelledError:
            life.arrivals.abandon(number)
            raise
        return life.arrivals.take(number)

    async def connected(self, address: str, port: int, *, pod: str = "") -> socket.socket:
        """A connection to a pod, or to an address that only a pod itself can reach."""
        sock = await self.open_socket("stream", pod=pod)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
        except BaseException:
            sock.close()
            raise
        return sock

    async def wait_lost(self) -> None:
        """Raise AgentLost when the agent ends without having been asked to."""
        # Whoever waits may be cancelled; that loses nobody.
        await asyncio.shield(self._channel.lost)
        raise AgentLost("the node agent ended, and every pod with it")


def _nobody() -> None:
    """Nobody wants to know."""
