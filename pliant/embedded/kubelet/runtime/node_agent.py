"""One process of the agent and our ends of all that leads to it, from its first words to its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Self

from pliant.embedded.kubelet.runtime.agent_channel import AgentChannel, SocketReceiver
from pliant.embedded.kubelet.runtime.agent_process import (
    AGENT_TIMEOUT,
    AgentLost,
    AgentOptions,
    AgentReadyMessage,
    AgentRequestFailed,
    receive_ready_message,
    spawn_agent,
    stop_agent,
    wait_readable,
)
from pliant.embedded.kubelet.runtime.messages import ContainerConfig, ContainerExit, ExecStreams, Mount
from pliant.errors import UnsupportedEnvironment


class AgentConnection:
    """An agent that is ready; when it is lost, another life may follow."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        descriptor_socket: socket.socket,
        ready_message: AgentReadyMessage,
        channel: AgentChannel,
    ) -> None:
        self.process = process
        self.descriptor_socket = descriptor_socket
        self.socket_receiver = SocketReceiver(descriptor_socket)
        self.ready_message = ready_message
        self.channel = channel
        self._child_pidfds = list(_open_child_pidfds(process.pid))

    @classmethod
    async def start(cls, options: AgentOptions, on_lost: Callable[[], None]) -> AgentConnection:
        """An agent that has said that it is ready; `on_lost` is called should it end without being asked to."""
        ours, theirs = socket.socketpair()
        handover, its_end = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with ExitStack() as unless_it_goes_well:
            unless_it_goes_well.enter_context(ours)
            unless_it_goes_well.enter_context(handover)
            ours.setblocking(False)
            handover.setblocking(False)
            with theirs, its_end:
                process = spawn_agent(options, theirs, its_end)
            try:
                hello = await asyncio.wait_for(receive_ready_message(ours), AGENT_TIMEOUT)
                loop = asyncio.get_running_loop()
                _, channel = await loop.create_unix_connection(lambda: AgentChannel(on_lost), sock=ours)
            except BaseException:
                await stop_agent(process, ours)
                raise
            unless_it_goes_well.pop_all()
        return cls(process, handover, hello, channel)

    async def close(self) -> None:
        """Have it end, if it has not, and return when everything of it is gone; asking again is harmless."""
        if self.ready_message.listener is not None:
            self.ready_message.listener.close()
        self.channel.close()
        await stop_agent(self.process)
        while self._child_pidfds:
            # Where only the outer process was killed, the kernel ends the one inside, and that all others.
            handle = self._child_pidfds.pop()
            with suppress(TimeoutError):
                await asyncio.wait_for(wait_readable(handle), AGENT_TIMEOUT)
            os.close(handle)
        self.descriptor_socket.close()


def _open_child_pidfds(pid: int) -> Iterator[int]:
    with suppress(OSError):  # not every kernel tells of children, and some have gone already
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield os.pidfd_open(int(child))


__all__ = [
    "AgentLost",
    "AgentOptions",
    "AgentRequestFailed",
    "ContainerConfig",
    "ContainerExit",
    "ExecSession",
    "ExecStreams",
    "Mount",
    "NodeAgent",
]

_SEND_RETRY_DELAY = 0.01
"""Seconds until the agent has made room for more descriptors."""


class ExecSession:
    """A command that was started in a running container."""

    def __init__(self, agent: NodeAgent, pod_uid: str, name: str, exit_future: asyncio.Future[ContainerExit]) -> None:
        self.exit_future = exit_future
        self._agent = agent
        self._pod_uid = pod_uid
        self._name = name

    def send_signal(self, signal_number: signal.Signals) -> None:
        """Send a signal to the command, or SIGKILL to its whole process group."""
        self._agent.send_signal(self._pod_uid, self._name, signal_number)


class NodeAgent:
    """Runs containers in the agent's namespaces; a container is named by its pod and a run name."""

    def __init__(self, options: AgentOptions) -> None:
        self._options = options
        self._connection: AgentConnection
        self.on_lost: Callable[[], None] = _ignore_loss
        """Called as soon as the agent has died, before those who wait for what ran in it hear of that."""

    @classmethod
    @asynccontextmanager
    async def start(cls, options: AgentOptions) -> AsyncIterator[Self]:
        """An agent that is ready, and gone with all its pods when the context ends."""
        if sys.platform != "linux":
            raise UnsupportedEnvironment(
                "pods are processes in Linux namespaces: run this on Linux, or in a Linux machine"
            )
        agent = cls(options)
        await agent._connect()
        try:
            yield agent
        finally:
            await agent._connection.close()

    async def restart(self) -> None:
        """Begin anew without any pod, after the agent was lost; nothing of the former one is left then."""
        await self._connection.close()
        await self._connect()

    async def _connect(self) -> None:
        self._connection = await AgentConnection.start(self._options, lambda: self.on_lost())

    @property
    def address(self) -> str:
        """Its own on the bridge, or the first of its block where there is no bridge."""
        return self._connection.ready_message.address

    @property
    def listener(self) -> socket.socket | None:
        """What was opened on the bridge for the API server, where there is one."""
        return self._connection.ready_message.listener

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._connection.process.pid

    @property
    def is_lost(self) -> bool:
        """Whether it has died."""
        return self._channel.lost.done()

    @property
    def _channel(self) -> AgentChannel:
        return self._connection.channel

    async def create_pod(self, pod_uid: str, hostname: str, *, own_network: bool = True, pod_key: str = "") -> str:
        """Make a pod's shared namespaces; its address, or the agent's when it shares that one's network.

        The member, `namespace/name`, is whom the pod stands for: it may be known by its address.
        """
        return await self._create_pod(pod_uid, hostname, own_network=own_network)

    async def _create_pod(self, pod_uid: str, hostname: str, *, own_network: bool, address: str = "") -> str:
        answer = await self._channel.request(
            "make", pod=pod_uid, hostname=hostname, own_network=own_network, address=address
        )
        return str(answer["address"])

    async def start_container(
        self, pod_uid: str, run_name: str, config: ContainerConfig
    ) -> asyncio.Future[ContainerExit]:
        """Start a container; the future tells how it ended."""
        ending = self._channel.expect_exit(pod_uid, run_name)
        try:
            await self._channel.request("start", pod=pod_uid, run=run_name, command=config)
        except BaseException:
            self._channel.discard_exit(pod_uid, run_name)
            raise
        return ending

    async def start_session(
        self, pod_uid: str, run_name: str, argv: Sequence[str], streams: ExecStreams
    ) -> ExecSession:
        """Start one more command in a running container, with that one's variables and working folder."""
        number = self._channel.next_request_id()
        name = f"{run_name}/session-{number}"
        await self._send_descriptors(number, streams)
        ending = self._channel.expect_exit(pod_uid, name)
        details = {
            "pod": pod_uid,
            "run": run_name,
            "session": name,
            "argv": list(argv),
            "terminal": streams.is_terminal,
        }
        try:
            await self._channel.request("execute", request_id=number, **details)
        except BaseException:
            self._channel.discard_exit(pod_uid, name)
            raise
        return ExecSession(self, pod_uid, name, ending)

    async def _send_descriptors(self, request_id: int, streams: ExecStreams) -> None:
        """Send descriptors ahead of the request that needs them."""
        descriptors = [streams.stdin, streams.stdout, streams.stderr]
        while True:
            try:
                socket.send_fds(self._connection.descriptor_socket, [str(request_id).encode()], descriptors)
                return
            except BlockingIOError:
                await asyncio.sleep(_SEND_RETRY_DELAY)
            except OSError as problem:
                raise AgentLost("the node agent is gone") from problem

    def send_signal(self, pod_uid: str, run_name: str, signal_number: signal.Signals) -> None:
        """Send a signal to a container's command, or SIGKILL to all of it; one that has ended is left in peace."""
        self._channel.send_request("signal", pod=pod_uid, run=run_name, signal=signal_number)

    def signal_pod(self, pod_uid: str, signal_number: signal.Signals) -> None:
        """Send a signal to every process of a pod, but for those that only look after others."""
        self._channel.send_request("signal_all", pod=pod_uid, signal=signal_number)

    async def is_responsive(self, timeout: float) -> bool:
        """Whether the agent says anything within so many seconds: one that is busy answers others first."""
        try:
            async with asyncio.timeout(timeout):
                await self._channel.request("ping")
        except TimeoutError:
            return asyncio.get_running_loop().time() - self._channel.last_message_at < timeout
        except AgentLost:
            return False
        return True

    async def read_usage(self) -> list[tuple[str, str, float, int]]:
        """Of every container and session that runs: pod, name, seconds of CPU so far, bytes of memory held."""
        answer = await self._channel.request("usage")
        return [(str(pod), str(name), float(cpu), int(memory)) for pod, name, cpu, memory in answer["usage"]]

    async def remove_pod(self, pod_uid: str) -> None:
        """Kill what still runs in a pod and take its namespaces away; an agent that died took all of it along."""
        with suppress(AgentLost):
            await self._channel.request("remove", pod=pod_uid)

    async def open_socket(
        self, socket_type: str, address: str = "", port: int = 0, *, in_egress: bool = False, pod_uid: str = ""
    ) -> socket.socket:
        """A `stream` or `datagram` socket of the pods' network; it listens where an address is given.

        One that stands `outside` hears what pods send to addresses that are neither pods nor services; one in a
        `pod` has that one's own network, loopback included.
        """
        life, number = self._connection, self._channel.next_request_id()
        try:
            place = {"kind": socket_type, "address": address, "port": port, "outside": in_egress, "pod": pod_uid}
            await self._channel.request("open", request_id=number, **place)
        except AgentRequestFailed as problem:
            where = f" at {address}:{port}" if address else ""
            raise OSError(f"no socket could be opened{where}: {problem}") from problem
        except asyncio.CancelledError:
            life.socket_receiver.abandon(number)
            raise
        return life.socket_receiver.take(number)

    async def connect(self, address: str, port: int, *, pod_uid: str = "") -> socket.socket:
        """A connection to a pod, or to an address that only a pod itself can reach."""
        sock = await self.open_socket("stream", pod_uid=pod_uid)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
        except BaseException:
            sock.close()
            raise
        return sock

    async def raise_when_lost(self) -> None:
        """Raise AgentLost when the agent ends without having been asked to."""
        # Whoever waits may be cancelled; that loses nobody.
        await asyncio.shield(self._channel.lost)
        raise AgentLost("the node agent ended, and every pod with it")


def _ignore_loss() -> None:
    """Nobody wants to know."""
