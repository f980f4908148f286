"""The process of the node agent: start it, wait until it is ready, and stop it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from pliant.embedded.kubelet.runtime.agent_channel import AgentChannel, SocketReceiver
from pliant.embedded.kubelet.runtime.messages import AgentLost
from pliant.errors import UnsupportedEnvironment

_PACKAGE_ROOT = Path(__file__).parents[4]
_START_CODE = (
    f"import sys; sys.path.insert(0, {str(_PACKAGE_ROOT)!r}); "
    "from pliant.embedded.agent.__main__ import main; main(sys.argv[1:])"
)
_AGENT_TIMEOUT = 15.0
"""Seconds for the agent to become ready, and to exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """How to start the node agent."""

    data_dir: Path
    api_port: int = 6443
    """The port on the bridge at which pods reach the API server."""
    network_mode: Literal["private", "host"] = "private"
    """Whether pods run in their own namespaces or as plain processes of the host."""
    interpreter: str = sys.executable
    uid_gid: tuple[int, int] | None = None
    """The user and group of the agent; those of the parent if None."""


@dataclass(slots=True)
class AgentConnection:
    """A running agent and the sockets to it; after a loss, another connection replaces it."""

    process: subprocess.Popen[bytes]
    channel: AgentChannel
    descriptor_socket: socket.socket
    socket_receiver: SocketReceiver
    address: str
    """The address of the bridge, or the first address of the loopback block in the host network mode."""
    listener: socket.socket | None
    """A listener on the bridge for the API server, if there is a bridge."""
    child_pidfds: list[int]

    @classmethod
    async def start(cls, options: AgentOptions, on_lost: Callable[[], None]) -> AgentConnection:
        """Start an agent and wait until it is ready; `on_lost` is called if it exits without a request."""
        channel_socket, agent_channel_socket = socket.socketpair()
        descriptor_socket, agent_descriptor_socket = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with ExitStack() as on_failure:
            on_failure.enter_context(channel_socket)
            on_failure.enter_context(descriptor_socket)
            channel_socket.setblocking(False)
            descriptor_socket.setblocking(False)
            with agent_channel_socket, agent_descriptor_socket:
                process = _spawn_agent(options, agent_channel_socket, agent_descriptor_socket)
            try:
                address, listener = await asyncio.wait_for(_receive_ready_message(channel_socket), _AGENT_TIMEOUT)
                loop = asyncio.get_running_loop()
                _, channel = await loop.create_unix_connection(lambda: AgentChannel(on_lost), sock=channel_socket)
            except BaseException:
                await _stop_agent(process, channel_socket)
                raise
            on_failure.pop_all()
        receiver, child_pidfds = SocketReceiver(descriptor_socket), list(_open_child_pidfds(process.pid))
        return cls(process, channel, descriptor_socket, receiver, address, listener, child_pidfds)

    async def close(self) -> None:
        """Stop the agent and wait until all its processes are gone; a second call does nothing."""
        if self.listener is not None:
            self.listener.close()
        self.channel.close()
        await _stop_agent(self.process)
        while self.child_pidfds:
            # If only the outer process was killed, the kernel kills the inner one, and with it all pods.
            pidfd = self.child_pidfds.pop()
            with suppress(TimeoutError):
                await asyncio.wait_for(_wait_readable(pidfd), _AGENT_TIMEOUT)
            os.close(pidfd)
        self.descriptor_socket.close()


def _open_child_pidfds(pid: int) -> Iterator[int]:
    with suppress(OSError):  # Not every kernel lists children, and some may have exited.
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield os.pidfd_open(int(child))


def _spawn_agent(options: AgentOptions, *passed_sockets: socket.socket) -> subprocess.Popen[bytes]:
    """Start the agent; it is killed when the calling thread ends."""
    scratch_dir = options.data_dir / "agent"
    scratch_dir.mkdir(parents=True, exist_ok=True)
    identity: dict[str, Any] = {}
    if options.uid_gid:
        user, group = options.uid_gid
        identity = {"user": user, "group": group, "extra_groups": []}
        os.chown(scratch_dir, user, group)
    descriptors = [sock.fileno() for sock in passed_sockets]
    arguments = [*descriptors, os.getpid(), scratch_dir, options.api_port, options.network_mode]
    return subprocess.Popen(
        [options.interpreter, "-I", "-S", "-c", _START_CODE, *map(str, arguments)],
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C must reach the parent only, which then stops the agent.
        **identity,
    )


async def _receive_ready_message(agent_socket: socket.socket) -> tuple[str, socket.socket | None]:
    """Return the address of the agent and its listener on the bridge."""
    await _wait_readable(agent_socket.fileno())
    data, descriptors, _, _ = socket.recv_fds(agent_socket, 1 << 16, 1)
    if not data:
        raise AgentLost("the node agent exited before it was ready")
    message = msgspec.json.decode(data, type=dict[str, Any])
    if "forbidden" in message:
        raise UnsupportedEnvironment(message["forbidden"])
    listener = socket.socket(fileno=descriptors[0]) if descriptors else None
    if listener is not None:
        listener.setblocking(False)
    return message["gateway"], listener


async def _stop_agent(process: subprocess.Popen[bytes], agent_socket: socket.socket | None = None) -> None:
    """Close the connection, if it is still open, and wait for the agent to exit; kill it after a timeout."""
    if process.returncode is not None:
        return
    if agent_socket is not None:
        agent_socket.shutdown(socket.SHUT_RDWR)
    pidfd = os.pidfd_open(process.pid)
    try:
        await asyncio.wait_for(_wait_readable(pidfd), _AGENT_TIMEOUT)
    finally:
        os.close(pidfd)
        process.kill()
        process.wait()


async def _wait_readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(fd, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(fd)
