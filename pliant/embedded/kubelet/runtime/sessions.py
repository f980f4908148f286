"""Commands that users run in containers, and containers they attach to, as the API server wants to see them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from pliant.embedded.apiserver.http.in_process_transport import close_stream
from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.embedded.apiserver.streaming.sessions import (
    STDERR,
    STDOUT,
    ContainerSession,
    SessionOptions,
    SessionStartError,
)
from pliant.embedded.kubelet.logs.pod_logs import PodLogStore
from pliant.embedded.kubelet.runtime import node_agent
from pliant.embedded.kubelet.runtime.file_descriptors import AsyncFileDescriptor
from pliant.embedded.kubelet.runtime.node_agent import AgentRequestFailed, ExecStreams, NodeAgent
from pliant.embedded.kubelet.runtime.stdin import ContainerStdin, StdinRegistry


class ContainerSessions:
    """Opens sessions in the containers of one agent."""

    def __init__(self, agent: NodeAgent, logs: PodLogStore, stdin_registry: StdinRegistry) -> None:
        self._agent = agent
        self._logs = logs
        self._stdin_registry = stdin_registry

    def open_session(
        self, pod: dict[str, Any], container: str, options: SessionOptions
    ) -> AbstractAsyncContextManager[ContainerSession]:
        """A session that is over when its context ends; a command that still runs then is ended."""
        return self._exec(pod, container, options) if options.command else self._attach(pod, container, options)

    async def connect_to_port(
        self, pod: dict[str, Any], port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a port of a pod, as if from the pod itself."""
        sock = await self._agent.connect("127.0.0.1", port, pod_uid=pod["metadata"]["uid"])
        return await asyncio.open_connection(sock=sock)

    @asynccontextmanager
    async def _attach(
        self, pod: dict[str, Any], container: str, options: SessionOptions
    ) -> AsyncIterator[ContainerSession]:
        # What was said before is for `kubectl logs` to tell.
        from_now_on = LogOptions(follow=True, tail_lines=0)
        way_in = self._stdin_registry.get(*_run_of(pod, container))
        session = _AttachedContainer(self._logs.read(pod, container, from_now_on), way_in)
        if not options.stdout:
            session.has_reader.set()
        try:
            yield session
        finally:
            if way_in is not None and options.stdin:
                way_in.detach_user()
            await close_stream(session.output)

    @asynccontextmanager
    async def _exec(
        self, pod: dict[str, Any], container: str, options: SessionOptions
    ) -> AsyncIterator[ContainerSession]:
        ends = _open_terminal() if options.tty else _open_pipes()
        try:
            try:
                session = await self._agent.start_session(*_run_of(pod, container), options.command, ends.container_end)
            except AgentRequestFailed as problem:
                raise SessionStartError(str(problem)) from problem
            finally:
                for descriptor in {ends.container_end.stdin, ends.container_end.stdout, ends.container_end.stderr}:
                    os.close(descriptor)
            try:
                yield _ExecutedCommand(session, ends)
            finally:
                # A terminal tells its programs by itself that nobody is there any longer, as they may expect.
                if not options.tty and not session.exit_future.done():
                    session.send_signal(signal.SIGKILL)
        finally:
            ends.close()


class _ExecutedCommand:
    """A command that was started for a user."""

    def __init__(self, session: node_agent.ExecSession, streams: _StreamPair) -> None:
        self._session = session
        self._streams = streams

    async def read(self, stream: int) -> bytes:
        """The next output; nothing at its end."""
        descriptor = self._streams.outputs.get(stream)
        return await descriptor.read() if descriptor is not None else b""

    async def write(self, data: bytes) -> None:
        """Give input."""
        await self._streams.stdin.write(data)

    def close_input(self) -> None:
        """There will be no more input; a terminal stays, as it is the output as well."""
        if not self._streams.container_end.is_terminal:
            self._streams.stdin.close()

    async def resize_terminal(self, columns: int, rows: int) -> None:
        """Tell the terminal how large it is."""
        self._streams.stdin.resize_terminal(columns, rows)

    async def wait_exit(self) -> int:
        """Wait for the command's end; its exit code."""
        return (await asyncio.shield(self._session.exit_future)).code


class _AttachedContainer:
    """A container whose output a user hears, and to which the user may speak if it listens."""

    def __init__(self, output: AsyncIterator[bytes], stdin: ContainerStdin | None) -> None:
        self.output = output
        self.has_reader = asyncio.Event()
        """Nothing is said before its answer would be heard."""
        self._stdin = stdin
        self._finished_event = asyncio.Event()

    async def read(self, stream: int) -> bytes:
        """The next output of either kind, all of it on STDOUT; nothing when the container has ended."""
        if stream != STDOUT:
            return b""
        self.has_reader.set()
        data = await anext(self.output, b"")
        if not data:
            self._finished_event.set()
        return data

    async def write(self, data: bytes) -> None:
        """Give input; a container that does not read hears nothing."""
        if self._stdin is not None:
            await self.has_reader.wait()
            await self._stdin.write(data)

    def close_input(self) -> None:
        """The user has no more to say; others may, unless the container listens to one user only."""
        if self._stdin is not None:
            self._stdin.detach_user()

    async def resize_terminal(self, columns: int, rows: int) -> None:
        """Tell the terminal how large it is."""
        if self._stdin is not None:
            await self._stdin.resize_terminal(columns, rows)

    async def wait_exit(self) -> int:
        """Wait for the container's end; its exit code is in its status, so this is none."""
        await self._finished_event.wait()
        return 0


class _StreamPair:
    """Both ends of a command's streams; the inner ones are handed to it."""

    def __init__(
        self, container_end: ExecStreams, stdin: AsyncFileDescriptor, outputs: dict[int, AsyncFileDescriptor]
    ) -> None:
        self.container_end = container_end
        self.stdin = stdin
        self.outputs = outputs

    def close(self) -> None:
        for descriptor in (self.stdin, *self.outputs.values()):
            descriptor.close()


def _open_terminal() -> _StreamPair:
    outer, inner = os.openpty()
    terminal = AsyncFileDescriptor(outer)
    return _StreamPair(
        ExecStreams(stdin=inner, stdout=inner, stderr=inner, is_terminal=True), terminal, {STDOUT: terminal}
    )


def _open_pipes() -> _StreamPair:
    input_inner, input_outer = os.pipe()
    output_outer, output_inner = os.pipe()
    errors_outer, errors_inner = os.pipe()
    inner = ExecStreams(stdin=input_inner, stdout=output_inner, stderr=errors_inner)
    outputs = {STDOUT: AsyncFileDescriptor(output_outer), STDERR: AsyncFileDescriptor(errors_outer)}
    return _StreamPair(inner, AsyncFileDescriptor(input_outer), outputs)


def _run_of(pod: dict[str, Any], container: str) -> tuple[str, str]:
    """What the agent calls a container that runs."""
    uid, status = pod["metadata"]["uid"], pod.get("status") or {}
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if each["name"] == container:
            return uid, str(each.get("containerID") or "").removeprefix(f"pliant://{uid}/")
    return uid, ""
