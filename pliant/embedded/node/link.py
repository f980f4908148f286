"""The parent's end of the node agent: start it, ask it to run containers, and end it with everything in it."""

from __future__ import annotations

import asyncio
import itertools
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing, nullcontext
from typing import Any, Self

import msgspec

from pliant.embedded.node.agentprocess import PATIENCE, AgentLost, Greeting, Launch, ended, greeting, spawned
from pliant.embedded.node.arrivals import Arrivals
from pliant.embedded.node.commands import Command, Ending, Mount, Streams
from pliant.errors import NotPossibleHere, PliantError

__all__ = ["AgentLost", "Command", "Ending", "Launch", "Mount", "NodeAgent", "Session", "StartFailed", "Streams"]

_BRIEFLY = 0.01
"""Seconds until the agent has made room for more descriptors."""


class StartFailed(PliantError):
    """A container could not be started; the message says why."""


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

    def __init__(self, channel: _Channel, handover: socket.socket, hello: Greeting, process: int) -> None:
        self._channel = channel
        self._handover = handover
        self._arrivals = Arrivals(handover)
        self.listener = hello.listener
        self.address = hello.address
        self.process = process

    @classmethod
    @asynccontextmanager
    async def started(cls, launch: Launch) -> AsyncIterator[Self]:
        """An agent that is ready, and gone with all its pods when the context ends."""
        if sys.platform != "linux":
            raise NotPossibleHere(
                "pods are processes in Linux namespaces: run this on Linux, or in a Linux machine"
            )
        ours, theirs = socket.socketpair()
        handover, its_end = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with ours, theirs, handover, its_end:
            ours.setblocking(False)
            handover.setblocking(False)
            process = spawned(launch, theirs, its_end)
            theirs.close()
            its_end.close()
            try:
                hello = await asyncio.wait_for(greeting(ours), PATIENCE)
                transport, channel = await asyncio.get_running_loop().create_unix_connection(_Channel, sock=ours)
                with hello.listener or nullcontext(), closing(transport):
                    yield cls(channel, handover, hello, process.pid)
            finally:
                await ended(process, ours)

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
                socket.send_fds(self._handover, [str(number).encode()], descriptors)
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
        """Kill what still runs in a pod and take its namespaces away."""
        await self._channel.ask("remove", pod=pod)

    async def open_socket(
        self, kind: str, address: str = "", port: int = 0, *, outside: bool = False, pod: str = ""
    ) -> socket.socket:
        """A `stream` or `datagram` socket of the pods' network; it listens where an address is given.

        One that stands `outside` hears what pods send to addresses that are neither pods nor services; one in a
        `pod` has that one's own network, loopback included.
        """
        number = self._channel.next_number()
        try:
            place = {"kind": kind, "address": address, "port": port, "outside": outside, "pod": pod}
            await self._channel.ask("open", number=number, **place)
        except StartFailed as problem:
            where = f" at {address}:{port}" if address else ""
            raise OSError(f"no socket could be opened{where}: {problem}") from problem
        except asyncio.CancelledError:
            self._arrivals.abandon(number)
            raise
        return self._arrivals.take(number)

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


class _Channel(asyncio.Protocol):
    """JSON lines to the agent and back; answers find their question by its number."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._numbers = itertools.count(1)
        self._questions: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._endings: dict[tuple[str, str], asyncio.Future[Ending]] = {}
        self._heard = b""
        self.heard_at = 0.0
        """When the agent last said anything, by the clock of the loop."""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._hear(msgspec.json.decode(line))

    def connection_lost(self, exc: Exception | None) -> None:
        for question in self._questions.values():
            if not question.done():
                question.set_exception(AgentLost("the node agent ended before it answered"))
        for ending in self._endings.values():
            ending.cancel()
        if not self.lost.done():
            self.lost.set_result(None)

    def next_number(self) -> int:
        """A number for a question that is about to be asked."""
        return next(self._numbers)

    def tell(self, do: str, *, number: int | None = None, **details: object) -> int:
        """Ask for something whose answer nobody awaits; the number of the question."""
        number = number or next(self._numbers)
        if self._transport is not None:
            self._transport.write(msgspec.json.encode({"id": number, "do": do, **details}) + b"\n")
        return number

    async def ask(self, do: str, *, number: int | None = None, **details: object) -> dict[str, Any]:
        if self.lost.done():
            raise AgentLost("the node agent is gone")
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._questions[self.tell(do, number=number, **details)] = answer
        return await answer

    def expect_end(self, pod: str, run: str) -> asyncio.Future[Ending]:
        ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._endings[pod, run] = ending
        return ending

    def forget_end(self, pod: str, run: str) -> None:
        self._endings.pop((pod, run), None)

    def _hear(self, message: dict[str, Any]) -> None:
        if "answers" in message:
            question = self._questions.pop(message["answers"], None)
            if question is None or question.done():
                return
            if "error" in message:
                question.set_exception(StartFailed(message["error"]))
            else:
                question.set_result(message)
        elif (ending := self._endings.pop((message["pod"], message["ended"]), None)) and not ending.done():
            told = Ending(message["code"], message["signal"], message.get("outgrown", False))
            ending.set_result(told)
