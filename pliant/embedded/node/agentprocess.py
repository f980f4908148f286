"""The agent's process as its parent sees it: started with its sockets, heard when it is ready, gone in the end."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from pliant.errors import NotPossibleHere, PliantError

_PACKAGE = Path(__file__).parents[3]
_START = (
    f"import sys; sys.path.insert(0, {str(_PACKAGE)!r}); "
    "from pliant.embedded.agent.__main__ import main; main(sys.argv[1:])"
)
PATIENCE = 15.0
"""Seconds within which an agent is ready, or gone after being told to."""


class StartFailed(PliantError):
    """A container could not be started; the message says why."""


class AgentLost(StartFailed):
    """The node agent ended on its own, and every pod with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How the agent's process is started."""

    data: Path
    port: int = 6443
    """The port on the bridge at which pods reach the API server."""
    network: Literal["private", "host"] = "private"
    """Whether pods get namespaces of their own, or are plain processes of this machine."""
    interpreter: str = sys.executable
    identity: tuple[int, int] | None = None
    """User and group to become, when the parent is root and the agent must not be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What an agent says when it is ready."""

    address: str
    """Its own on the bridge, or the first of its block where there is no bridge."""
    listener: socket.socket | None
    """On the bridge, where there is one."""


def spawned(launch: Launch, *sockets: socket.socket) -> subprocess.Popen[bytes]:
    """Start the agent from the thread that calls; when that thread ends, the agent does."""
    scratch = launch.data / "agent"
    scratch.mkdir(parents=True, exist_ok=True)
    identity: dict[str, Any] = {}
    if launch.identity:
        user, group = launch.identity
        identity = {"user": user, "group": group, "extra_groups": []}
        os.chown(scratch, user, group)
    handles = [each.fileno() for each in sockets]
    arguments = [*handles, os.getpid(), scratch, launch.port, launch.network]
    return subprocess.Popen(
        [launch.interpreter, "-I", "-S", "-c", _START, *map(str, arguments)],
        pass_fds=handles,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the parent, which then ends the agent in good order.
        **identity,
    )


async def greeting(ours: socket.socket) -> Greeting:
    """The agent's first words and the listener that may come with them."""
    await readable(ours.fileno())
    heard, descriptors, _, _ = socket.recv_fds(ours, 1 << 16, 1)
    if not heard:
        raise AgentLost("the node agent ended before it was ready")
    hello = msgspec.json.decode(heard, type=dict[str, Any])
    if "forbidden" in hello:
        raise NotPossibleHere(hello["forbidden"])
    listener = socket.socket(fileno=descriptors[0]) if descriptors else None
    if listener is not None:
        listener.setblocking(False)
    return Greeting(address=hello["gateway"], listener=listener)


async def ended(process: subprocess.Popen[bytes], ours: socket.socket | None = None) -> None:
    """Hang up, unless that was done, and wait for the agent to go; one that does not is killed."""
    if process.returncode is not None:
        return
    if ours is not None:
        ours.shutdown(socket.SHUT_RDWR)
    handle = os.pidfd_open(process.pid)
    try:
        await asyncio.wait_for(readable(handle), PATIENCE)
    finally:
        os.close(handle)
        process.kill()
        process.wait()


async def readable(descriptor: int) -> None:
    """Wait until a descriptor has something to tell."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    loop.add_reader(descriptor, told.set)
    try:
        await told.wait()
    finally:
        loop.remove_reader(descriptor)
