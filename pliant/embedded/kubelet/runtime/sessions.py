"""Exec sessions, attached containers and port forwarding, as the API server uses them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from pliant.embedded.apiserver.http.in_process_transport import close_stream
from pliant.embedded.apiserver.streaming import sessions
from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.embedded.apiserver.streaming.sessions import STDERR, STDOUT, ContainerSession, SessionOptions
from pliant.embedded.kubelet.environment.variables import PodObject
from pliant.embedded.kubelet.logs.pod_logs import PodLogStore
from pliant.embedded.kubelet.pods.status import find_container_status
from pliant.embedded.kubelet.runtime.messages import AgentRequestFailed, ExecStreams
from pliant.embedded.kubelet.runtime.node_agent import ExecSession, NodeAgentClient
from pliant.embedded.kubelet.runtime.streams import AsyncFileDescriptor, ContainerStdin, StdinRegistry


class ContainerSessions:
    """Opens sessions in the containers of an agent."""

    def __init__(self, agent: NodeAgentClient, logs: PodLogStore, stdin_registry: StdinRegistry) -> None:
        self._agent = agent
        self._logs = logs
        self._stdin_registry = stdin_registry

    def open_session(
        self, pod: PodObject, container: str, options: SessionOptions
    ) -> AbstractAsyncContextManager[ContainerSession]:
        """Run a command in a container, or attach to it without one; the exit of the context kills the command."""
        return self._exec(pod, container, options) if options.command else self._attach(pod, container, options)

    async def connect_to_port(self, pod: PodObject, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a port on the loopback interface of a pod."""
        sock = await self._agent.connect_in_pod_network("127.0.0.1", port, pod_uid=pod["metadata"]["uid"])
        return await asyncio.open_connection(sock=sock)

    @asynccontextmanager
    async def _attach(self, pod: PodObject, container: str, options: SessionOptions) -> AsyncIterator[ContainerSession]:
        # Earlier output is left to `kubectl logs`, except the prompt of a shell that `kubectl debug` has just started.
        is_ephemeral = any(each["name"] == container for each in pod["spec"].get("ephemeralContainers") or ())
        options_of_log = LogOptions(follow=True, tail_lines=None if is_ephemeral else 0)
        output = self._logs.read_container_log(pod, container, options_of_log)
        stdin = self._stdin_registry.get(*_find_run(pod, container))
        session = _AttachedContainer(output, stdin)
        if not options.stdout:
            session.has_reader.set()
        try:
            yield session
        finally:
            if stdin is not None and options.stdin:
                stdin.close_if_stdin_once()
            await close_stream(session.output)

    @asynccontextmanager
    async def _exec(self, pod: PodObject, container: str, options: SessionOptions) -> AsyncIterator[ContainerSession]:
        streams = _open_terminal() if options.tty else _open_pipes()
        container_end = streams.container_end
        try:
            try:
                session = await self._agent.start_session(*_find_run(pod, container), options.command, container_end)
            except AgentRequestFailed as error:
                raise sessions.SessionStartError(str(error)) from error
            finally:
                for fd in {container_end.stdin, container_end.stdout, container_end.stderr}:
                    os.close(fd)
            try:
                yield _ExecutedCommand(session, streams)
            finally:
                # Programs on a terminal get SIGHUP when it is closed.
                if not options.tty and not session.exit_future.done():
                    session.send_signal(signal.SIGKILL)
        finally:
            streams.close()


class _ExecutedCommand:
    """The session of `kubectl exec`."""

    def __init__(self, session: ExecSession, streams: _StreamPair) -> None:
        self._session = session
        self._streams = streams

    async def read(self, stream: int) -> bytes:
        descriptor = self._streams.outputs.get(stream)
        return await descriptor.read() if descriptor is not None else b""

    async def write(self, data: bytes) -> None:
        await self._streams.stdin.write(data)

    def close_input(self) -> None:
        # A terminal stays open, as it is also the output.
        if not self._streams.container_end.is_terminal:
            self._streams.stdin.close()

    async def resize_terminal(self, columns: int, rows: int) -> None:
        self._streams.stdin.resize_terminal(columns, rows)

    async def wait_exit(self) -> int:
        return (await asyncio.shield(self._session.exit_future)).code


class _AttachedContainer:
    """The session of `kubectl attach`: the log of a container, and its stdin if it has one."""

    def __init__(self, output: AsyncIterator[bytes], stdin: ContainerStdin | None) -> None:
        self.output = output
        self.has_reader = asyncio.Event()
        """Input is held back until the output is read, so that no response is missed."""
        self._stdin = stdin
        self._finished_event = asyncio.Event()

    async def read(self, stream: int) -> bytes:
        """Return the next output, stdout and stderr combined, on STDOUT; nothing when the container has exited."""
        if stream != STDOUT:
            return b""
        self.has_reader.set()
        data = await anext(self.output, b"")
        if not data:
            self._finished_event.set()
        return data

    async def write(self, data: bytes) -> None:
        if self._stdin is not None:
            await self.has_reader.wait()
            await self._stdin.write(data)

    def close_input(self) -> None:
        if self._stdin is not None:
            self._stdin.close_if_stdin_once()

    async def resize_terminal(self, columns: int, rows: int) -> None:
        if self._stdin is not None:
            await self._stdin.resize_terminal(columns, rows)

    async def wait_exit(self) -> int:
        """Wait for the exit of the container and return 0; the exit code is in the status of the pod."""
        await self._finished_event.wait()
        return 0


@dataclass(frozen=True, slots=True)
class _StreamPair:
    """Both ends of the standard streams of a command."""

    container_end: ExecStreams
    stdin: AsyncFileDescriptor
    outputs: dict[int, AsyncFileDescriptor]

    def close(self) -> None:
        for descriptor in (self.stdin, *self.outputs.values()):
            descriptor.close()


def _open_terminal() -> _StreamPair:
    outer, inner = os.openpty()
    terminal = AsyncFileDescriptor(outer)
    container_end = ExecStreams(stdin=inner, stdout=inner, stderr=inner, is_terminal=True)
    return _StreamPair(container_end, terminal, {STDOUT: terminal})


def _open_pipes() -> _StreamPair:
    stdin_reader, stdin_writer = os.pipe()
    stdout_reader, stdout_writer = os.pipe()
    stderr_reader, stderr_writer = os.pipe()
    container_end = ExecStreams(stdin=stdin_reader, stdout=stdout_writer, stderr=stderr_writer)
    outputs = {STDOUT: AsyncFileDescriptor(stdout_reader), STDERR: AsyncFileDescriptor(stderr_reader)}
    return _StreamPair(container_end, AsyncFileDescriptor(stdin_writer), outputs)


def _find_run(pod: PodObject, container: str) -> tuple[str, str]:
    """Return the pod uid and the run name of a container, as the agent knows it."""
    uid = pod["metadata"]["uid"]
    return uid, str(find_container_status(pod, container).get("containerID") or "").removeprefix(f"pliant://{uid}/")
