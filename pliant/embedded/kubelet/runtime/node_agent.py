"""The kubelet's interface to the node agent: create pods, start containers and sessions, open sockets."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Self

from pliant.embedded.agent.container.config import ContainerConfig
from pliant.embedded.kubelet.runtime.agent_channel import AgentChannel
from pliant.embedded.kubelet.runtime.agent_process import AgentConnection, AgentOptions
from pliant.embedded.kubelet.runtime.messages import AgentLost, AgentRequestFailed, ExecStreams, ExitFuture
from pliant.errors import UnsupportedEnvironment

_SEND_RETRY_DELAY = 0.01
"""Seconds to wait while the socket buffer is full of descriptors."""


class ExecSession:
    """A command that was started in a running container."""

    def __init__(self, agent: NodeAgentClient, pod_uid: str, name: str, exit_future: ExitFuture) -> None:
        self.exit_future = exit_future
        self._agent = agent
        self._pod_uid = pod_uid
        self._name = name

    def send_signal(self, signal_number: signal.Signals) -> None:
        """Send a signal to the command; SIGKILL goes to its whole process group."""
        self._agent.signal_container(self._pod_uid, self._name, signal_number)


class NodeAgentClient:
    """A client of the node agent; the uid of its pod and a run name identify a container."""

    def __init__(self, options: AgentOptions) -> None:
        self._options = options
        self._connection: AgentConnection
        self.on_lost: Callable[[], None] | None = None
        """Called when the agent is lost, before pending requests fail and containers are reported as killed."""

    @classmethod
    @asynccontextmanager
    async def start(cls, options: AgentOptions) -> AsyncIterator[Self]:
        """Start an agent, and stop it with all its pods when the context exits."""
        if sys.platform != "linux":
            raise UnsupportedEnvironment("pods run in Linux namespaces: use Linux, or a Linux virtual machine")
        agent = cls(options)
        await agent._connect()
        try:
            yield agent
        finally:
            await agent._connection.close()

    async def restart(self) -> None:
        """Start a new agent without pods after a loss, when all processes of the old one are gone."""
        await self._connection.close()
        await self._connect()

    async def _connect(self) -> None:
        self._connection = await AgentConnection.start(self._options, self._notify_lost)

    def _notify_lost(self) -> None:
        if self.on_lost is not None:
            self.on_lost()

    @property
    def gateway_address(self) -> str:
        """The address of the bridge, or the first address of the loopback block in the host network mode."""
        return self._connection.address

    @property
    def api_listener(self) -> socket.socket | None:
        """The listener on the bridge for the API server, if there is a bridge."""
        return self._connection.listener

    @property
    def pid(self) -> int:
        return self._connection.process.pid

    @property
    def is_lost(self) -> bool:
        return self._channel.lost.done()

    @property
    def _channel(self) -> AgentChannel:
        return self._connection.channel

    async def create_pod(self, pod_uid: str, hostname: str, *, own_address: bool = True, pod_key: str = "") -> str:
        """Create the sandbox of a pod and return its address, which is the agent's without its own network.

        `pod_key` is `namespace/name`; the address of a pod may depend on it.
        """
        return await self._create_sandbox(pod_uid, hostname, own_network=own_address)

    async def _create_sandbox(self, pod_uid: str, hostname: str, *, own_network: bool, address: str = "") -> str:
        reply = await self._channel.request(
            "create_pod", pod=pod_uid, hostname=hostname, own_network=own_network, address=address
        )
        return str(reply["address"])

    async def start_container(self, pod_uid: str, run_name: str, config: ContainerConfig) -> ExitFuture:
        """Start a container and return a future for its exit."""
        request_id = self._channel.next_request_id()
        return await self._start(pod_uid, run_name, "start_container", request_id, run_name=run_name, config=config)

    async def start_session(self, pod_uid: str, run_name: str, argv: Sequence[str], stdio: ExecStreams) -> ExecSession:
        """Start a command in a running container, with the container's environment and working directory."""
        request_id = self._channel.next_request_id()
        session_name = f"{run_name}/session-{request_id}"
        await self._send_descriptors(request_id, stdio)
        details = {"run_name": run_name, "session_name": session_name, "argv": list(argv), "tty": stdio.is_terminal}
        exit_future = await self._start(pod_uid, session_name, "start_session", request_id, **details)
        return ExecSession(self, pod_uid, session_name, exit_future)

    async def _start(self, pod_uid: str, name: str, operation: str, request_id: int, **details: object) -> ExitFuture:
        """Start a container or session and return a future for its exit."""
        exit_future = self._channel.expect_exit(pod_uid, name)
        try:
            await self._channel.request(operation, request_id=request_id, pod=pod_uid, **details)
        except BaseException:
            self._channel.discard_exit(pod_uid, name)
            raise
        return exit_future

    async def _send_descriptors(self, request_id: int, stdio: ExecStreams) -> None:
        """Send the descriptors of a request, before the request itself."""
        descriptors = [stdio.stdin, stdio.stdout, stdio.stderr]
        while True:
            try:
                socket.send_fds(self._connection.descriptor_socket, [str(request_id).encode()], descriptors)
                return
            except BlockingIOError:
                await asyncio.sleep(_SEND_RETRY_DELAY)
            except OSError as error:
                raise AgentLost("the node agent has exited") from error

    def signal_container(self, pod_uid: str, run_name: str, signal_number: signal.Signals) -> None:
        """Send a signal to the command of a container, if it runs; SIGKILL goes to all processes of the container."""
        self._channel.send_request("signal_run", pod=pod_uid, run_name=run_name, signal=signal_number)

    def signal_pod(self, pod_uid: str, signal_number: signal.Signals) -> None:
        """Send a signal to all processes of a pod except the container shims."""
        self._channel.send_request("signal_pod", pod=pod_uid, signal=signal_number)

    async def is_responsive(self, timeout: float) -> bool:
        """Return whether the agent sends anything within the timeout; a busy agent may reply to other requests."""
        try:
            async with asyncio.timeout(timeout):
                await self._channel.request("ping")
        except TimeoutError:
            return asyncio.get_running_loop().time() - self._channel.last_message_at < timeout
        except AgentLost:
            return False
        return True

    async def read_container_usage(self) -> list[tuple[str, str, float, int]]:
        """Return pod uid, run name, CPU seconds and memory bytes of each running container and session."""
        reply = await self._channel.request("measure_usage")
        return [(str(pod), str(name), float(cpu), int(memory)) for pod, name, cpu, memory in reply["usage"]]

    async def remove_pod(self, pod_uid: str) -> None:
        """Kill all containers of a pod and remove its sandbox; a lost agent has taken both along."""
        with suppress(AgentLost):
            await self._channel.request("remove_pod", pod=pod_uid)

    async def open_socket(
        self, socket_type: str, address: str = "", port: int = 0, *, in_egress: bool = False, pod_uid: str = ""
    ) -> socket.socket:
        """Open a `stream` or `datagram` socket in the pod network; it listens if an address is given.

        With `in_egress`, it receives what pods send to addresses that are no pod and no service. With `pod_uid`, it
        is in the network of that pod, loopback included.
        """
        connection, request_id = self._connection, self._channel.next_request_id()
        details = {"address": address, "port": port, "in_egress": in_egress, "pod": pod_uid}
        try:
            await self._channel.request("open_socket", request_id=request_id, socket_type=socket_type, **details)
        except AgentRequestFailed as error:
            location = f" at {address}:{port}" if address else ""
            raise OSError(f"cannot open a socket{location}: {error}") from error
        except asyncio.CancelledError:
            connection.socket_receiver.abandon(request_id)
            raise
        return connection.socket_receiver.take(request_id)

    async def connect_in_pod_network(self, address: str, port: int, *, pod_uid: str = "") -> socket.socket:
        """Connect to an address in the pod network, or in the network of a pod."""
        sock = await self.open_socket("stream", pod_uid=pod_uid)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
        except BaseException:
            sock.close()
            raise
        return sock

    async def raise_when_lost(self) -> None:
        """Raise AgentLost when the agent exits without a request."""
        # Shielded: the cancellation of one waiter must not cancel the future of all.
        await asyncio.shield(self._channel.lost)
        raise AgentLost("the node agent exited, and all pods with it")
