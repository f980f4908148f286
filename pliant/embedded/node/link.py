"""The parent's end of the node agent: start it, ask it to run containers, and end it with everything in it."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import msgspec

from pliant.errors import NotPossibleHere, PliantError

_PACKAGE = Path(__file__).parents[3]
_START = (
    f"import sys; sys.path.insert(0, {str(_PACKAGE)!r}); "
    "from pliant.embedded.agent.__main__ import main; main(sys.argv[1:])"
)
_PATIENCE = 15.0
"""Seconds within which an agent is ready, or gone after being told to."""


class StartFailed(PliantError):
    """A container could not be started; the message says why."""


class AgentLost(PliantError):
    """The node agent ended on its own, and every pod with it."""


class Mount(TypedDict):
    """Something a container sees at `target`: a host path as `source`, or pod memory by the name `memory`."""

    target: str
    source: NotRequired[str]
    memory: NotRequired[str]
    readonly: bool
    private: bool


class Command(TypedDict):
    """What to run in a pod."""

    argv: list[str]
    env: dict[str, str]
    folder: str
    log: str
    mounts: list[Mount]


class Ending(msgspec.Struct, frozen=True):
    """How a container ended."""

    code: int
    signal: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How the agent's process is started."""

    data: Path
    port: int = 6443
    """The port on the bridge at which pods reach the API server."""
    interpreter: str = sys.executable
    identity: tuple[int, int] | None = None
    """User and group to become, when the parent is root and the agent must not be."""


class NodeAgent:
    """Runs containers in the agent's namespaces; a container is named by its pod and a run name."""

    def __init__(self, channel: _Channel, listener: socket.socket, address: str, process: int) -> None:
        self._channel = channel
        self.listener = listener
        self.address = address
        self.process = process

    @classmethod
    @asynccontextmanager
    async def started(cls, launch: Launch) -> AsyncIterator[NodeAgent]:
        """An agent that is ready, and gone with all its pods when the context ends."""
        if sys.platform != "linux":
            raise NotPossibleHere(
                "pods are processes in Linux namespaces: run this on Linux, or in a Linux machine"
            )
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            process = _spawned(launch, theirs)
            theirs.close()
            try:
                hello, listener = await asyncio.wait_for(_greeting(ours), _PATIENCE)
                transport, channel = await asyncio.get_running_loop().create_unix_connection(_Channel, sock=ours)
                with listener, closing(transport):
                    yield cls(channel, listener, hello["gateway"], process.pid)
            finally:
                await _ended(process, ours)

    async def make_pod(self, pod: str, hostname: str) -> str:
        """Make a pod's shared namespaces; its address."""
        answer = await self._channel.ask("make", pod=pod, hostname=hostname)
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

    def send_signal(self, pod: str, run: str, number: signal.Signals) -> None:
        """Send a signal to a container's command, or SIGKILL to all of it; one that has ended is left in peace."""
        self._channel.tell("signal", pod=pod, run=run, signal=number)

    async def remove_pod(self, pod: str) -> None:
        """Kill what still runs in a pod and take its namespaces away."""
        await self._channel.ask("remove", pod=pod)

    async def wait_lost(self) -> None:
        """Raise AgentLost when the agent ends without having been asked to."""
        await self._channel.lost
        raise AgentLost("the node agent ended, and every pod with it")


class _Channel(asyncio.Protocol):
    """JSON lines to the agent and back; answers find their question by its number."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._numbers = itertools.count(1)
        self._questions: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._endings: dict[tuple[str, str], asyncio.Future[Ending]] = {}
        self._heard = b""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
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

    def tell(self, do: str, **details: object) -> int:
        """Ask for something whose answer nobody awaits; the number of the question."""
        number = next(self._numbers)
        if self._transport is not None:
            self._transport.write(msgspec.json.encode({"id": number, "do": do, **details}) + b"\n")
        return number

    async def ask(self, do: str, **details: object) -> dict[str, Any]:
        if self.lost.done():
            raise AgentLost("the node agent is gone")
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._questions[self.tell(do, **details)] = answer
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
            ending.set_result(Ending(message["code"], message["signal"]))


def _spawned(launch: Launch, theirs: socket.socket) -> subprocess.Popen[bytes]:
    """Start the agent from the thread that calls; when that thread ends, the agent does."""
    scratch = launch.data / "agent"
    scratch.mkdir(parents=True, exist_ok=True)
    identity: dict[str, Any] = {}
    if launch.identity:
        user, group = launch.identity
        identity = {"user": user, "group": group, "extra_groups": []}
        os.chown(scratch, user, group)
    handle = str(theirs.fileno())
    return subprocess.Popen(
        [launch.interpreter, "-I", "-S", "-c", _START, handle, str(os.getpid()), str(scratch), str(launch.port)],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the parent, which then ends the agent in good order.
        **identity,
    )


async def _greeting(ours: socket.socket) -> tuple[dict[str, Any], socket.socket]:
    """The agent's first words and the listener that comes with them."""
    await _readable(ours.fileno())
    heard, descriptors, _, _ = socket.recv_fds(ours, 1 << 16, 1)
    if not heard:
        raise AgentLost("the node agent ended before it was ready")
    hello = msgspec.json.decode(heard, type=dict[str, Any])
    if "forbidden" in hello:
        raise NotPossibleHere(hello["forbidden"])
    listener = socket.socket(fileno=descriptors[0])
    listener.setblocking(False)
    return hello, listener


async def _ended(process: subprocess.Popen[bytes], ours: socket.socket) -> None:
    """Hang up and wait for the agent to go; one that does not is killed."""
    if ours.fileno() >= 0:
        ours.shutdown(socket.SHUT_RDWR)
    handle = os.pidfd_open(process.pid)
    try:
        await asyncio.wait_for(_readable(handle), _PATIENCE)
    finally:
        os.close(handle)
        process.kill()
        process.wait()


async def _readable(descriptor: int) -> None:
    """Wait until a descriptor has something to tell."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    loop.add_reader(descriptor, told.set)
    try:
        await told.wait()
    finally:
        loop.remove_reader(descriptor)
