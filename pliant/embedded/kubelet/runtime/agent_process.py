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

from pliant.errors import PliantError, UnsupportedEnvironment

_PACKAGE_ROOT = Path(__file__).parents[4]
_START_CODE = (
    f"import sys; sys.path.insert(0, {str(_PACKAGE_ROOT)!r}); "
    "from pliant.embedded.agent.__main__ import main; main(sys.argv[1:])"
)
AGENT_TIMEOUT = 15.0
"""Seconds within which an agent is ready, or gone after being told to."""


class AgentRequestFailed(PliantError):
    """A container could not be started; the message says why."""


class AgentLost(AgentRequestFailed):
    """The node agent ended on its own, and every pod with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """How the agent's process is started."""

    data_dir: Path
    api_port: int = 6443
    """The port on the bridge at which pods reach the API server."""
    network_mode: Literal["private", "host"] = "private"
    """Whether pods get namespaces of their own, or are plain processes of this machine."""
    interpreter: str = sys.executable
    uid_gid: tuple[int, int] | None = None
    """User and group to become, when the parent is root and the agent must not be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReadyMessage:
    """What an agent says when it is ready."""

    address: str
    """Its own on the bridge, or the first of its block where there is no bridge."""
    listener: socket.socket | None
    """On the bridge, where there is one."""


def spawn_agent(options: AgentOptions, *passed_sockets: socket.socket) -> subprocess.Popen[bytes]:
    """Start the agent from the thread that calls; when that thread ends, the agent does."""
    scratch = options.data_dir / "agent"
    scratch.mkdir(parents=True, exist_ok=True)
    identity: dict[str, Any] = {}
    if options.uid_gid:
        user, group = options.uid_gid
        identity = {"user": user, "group": group, "extra_groups": []}
        os.chown(scratch, user, group)
    handles = [each.fileno() for each in passed_sockets]
    arguments = [*handles, os.getpid(), scratch, options.api_port, options.network_mode]
    return subprocess.Popen(
        [options.interpreter, "-I", "-S", "-c", _START_CODE, *map(str, arguments)],
        pass_fds=handles,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the parent, which then ends the agent in good order.
        **identity,
    )


async def receive_ready_message(agent_socket: socket.socket) -> AgentReadyMessage:
    """The agent's first words and the listener that may come with them."""
    await wait_readable(agent_socket.fileno())
    heard, descriptors, _, _ = socket.recv_fds(agent_socket, 1 << 16, 1)
    if not heard:
        raise AgentLost("the node agent ended before it was ready")
    hello = msgspec.json.decode(heard, type=dict[str, Any])
    if "forbidden" in hello:
        raise UnsupportedEnvironment(hello["forbidden"])
    listener = socket.socket(fileno=descriptors[0]) if descriptors else None
    if listener is not None:
        listener.setblocking(False)
    return AgentReadyMessage(address=hello["gateway"], listener=listener)


async def stop_agent(process: subprocess.Popen[bytes], agent_socket: socket.socket | None = None) -> None:
    """Hang up, unless that was done, and wait for the agent to go; one that does not is killed."""
    if process.returncode is not None:
        return
    if agent_socket is not None:
        agent_socket.shutdown(socket.SHUT_RDWR)
    handle = os.pidfd_open(process.pid)
    try:
        await asyncio.wait_for(wait_readable(handle), AGENT_TIMEOUT)
    finally:
        os.close(handle)
        process.kill()
        process.wait()


async def wait_readable(descriptor: int) -> None:
    """Wait until a descriptor has something to tell."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    loop.add_reader(descriptor, told.set)
    try:
        await told.wait()
    finally:
        loop.remove_reader(descriptor)
