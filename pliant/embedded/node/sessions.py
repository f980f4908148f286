"""Commands that users run in containers, and containers they attach to, as the API server wants to see them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from pliant.embedded.node import link
from pliant.embedded.node.descriptors import Descriptor
from pliant.embedded.node.inputs import Input, Inputs
from pliant.embedded.node.link import NodeAgent, StartFailed, Streams
from pliant.embedded.node.podlogs import PodLogs
from pliant.embedded.server.direct import close_stream
from pliant.embedded.server.logs import LogOptions
from pliant.embedded.server.sessions import STDERR, STDOUT, CannotStart, Session, Wishes


class NodeSessions:
    """Opens sessions in the containers of one agent."""

    def __init__(self, agent: NodeAgent, logs: PodLogs, inputs: Inputs) -> None:
        self._agent = agent
        self._logs = logs
        self._inputs = inputs

    def open(self, pod: dict[str, Any], container: str, wishes: Wishes) -> AbstractAsyncContextManager[Session]:
        """A session that is over when its context ends; a command that still runs then is ended."""
        return self._executed(pod, container, wishes) if wishes.command else self._attached(pod, container, wishes)

    async def connect(self, pod: dict[str, Any], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a port of a pod, as if from the pod itself."""
        sock = await self._agent.connected("127.0.0.1", port, pod=pod["metadata"]["uid"])
        return await asyncio.open_connection(sock=sock)

    @asynccontextmanager
    async def _attached(self, pod: dict[str, Any], container: str, wishes: Wishes) -> AsyncIterator[Session]:
        # What was said before is for `kubectl logs` to tell.
        from_now_on = LogOptions(follow=True, tail_lines=0)
        way_in = self._inputs.of(*_run(pod, container))
        session = _Attached(self._logs.read(pod, container, from_now_on), way_in)
        if not wishes.stdout:
            session.is_heard.set()
        try:
            yield session
        finally:
            if way_in is not None and wishes.stdin:
                way_in.user_left()
            await close_stream(session.output)

    @asynccontextmanager
    async def _executed(self, pod: dict[str, Any], container: str, wishes: Wishes) -> AsyncIterator[Session]:
        ends = _terminal() if wishes.tty else _pipes()
        try:
            try:
                session = await self._agent.execute(*_run(pod, container), wishes.command, ends.inner)
            except StartFailed as problem:
                raise CannotStart(str(problem)) from problem
            finally:
                for descriptor in {ends.inner.input, ends.inner.output, ends.inner.errors}:
                    os.close(descriptor)
            try:
                yield _Executed(session, ends)
            finally:
                # A terminal tells its programs by itself that nobody is there any longer, as they may expect.
                if not wishes.tty and not session.ending.done():
                    session.send_signal(signal.SIGKILL)
        finally:
            ends.close()


class _Executed:
    """A command that was started for a user."""

    def __init__(self, session: link.Session, ends: _Ends) -> None:
        self._session = session
        self._ends = ends

    async def read(self, stream: int) -> bytes:
        """The next output; nothing at its end."""
        descriptor = self._ends.outputs.get(stream)
        return await descriptor.read() if descriptor is not None else b""

    async def write(self, data: bytes) -> None:
        """Give input."""
        await self._ends.input.write(data)

    def close_input(self) -> None:
        """There will be no more input; a terminal stays, as it is the output as well."""
        if not self._ends.inner.terminal:
            self._ends.input.close()

    async def resize(self, columns: int, rows: int) -> None:
        """Tell the terminal how large it is."""
        self._ends.input.resize(columns, rows)

    async def ended(self) -> int:
        """Wait for the command's end; its exit code."""
        return (await asyncio.shield(self._session.ending)).code


class _Attached:
    """A container whose output a user hears, and to which the user may speak if it listens."""

    def __init__(self, output: AsyncIterator[bytes], way_in: Input | None) -> None:
        self.output = output
        self.is_heard = asyncio.Event()
        """Nothing is said before its answer would be heard."""
        self._way_in = way_in
        self._is_over = asyncio.Event()

    async def read(self, stream: int) -> bytes:
        """The next output of either kind, all of it on STDOUT; nothing when the container has ended."""
        if stream != STDOUT:
            return b""
        self.is_heard.set()
        data = await anext(self.output, b"")
        if not data:
            self._is_over.set()
        return data

    async def write(self, data: bytes) -> None:
        """Give input; a container that does not read hears nothing."""
        if self._way_in is not None:
            await self.is_heard.wait()
            await self._way_in.write(data)

    def close_input(self) -> None:
        """The user has no more to say; others may, unless the container listens to one user only."""
        if self._way_in is not None:
            self._way_in.user_left()

    async def resize(self, columns: int, rows: int) -> None:
        """Tell the terminal how large it is."""
        if self._way_in is not None:
            await self._way_in.resize(columns, rows)

    async def ended(self) -> int:
        """Wait for the container's end; its exit code is in its status, so this is none."""
        await self._is_over.wait()
        return 0


class _Ends:
    """Both ends of a command's streams; the inner ones are handed to it."""

    def __init__(self, inner: Streams, outer: Descriptor, outputs: dict[int, Descriptor]) -> None:
        self.inner = inner
        self.input = outer
        self.outputs = outputs

    def close(self) -> None:
        for descriptor in (self.input, *self.outputs.values()):
            descriptor.close()


def _terminal() -> _Ends:
    outer, inner = os.openpty()
    terminal = Descriptor(outer)
    return _Ends(Streams(input=inner, output=inner, errors=inner, terminal=True), terminal, {STDOUT: terminal})


def _pipes() -> _Ends:
    input_inner, input_outer = os.pipe()
    output_outer, output_inner = os.pipe()
    errors_outer, errors_inner = os.pipe()
    inner = Streams(input=input_inner, output=output_inner, errors=errors_inner)
    outputs = {STDOUT: Descriptor(output_outer), STDERR: Descriptor(errors_outer)}
    return _Ends(inner, Descriptor(input_outer), outputs)


def _run(pod: dict[str, Any], container: str) -> tuple[str, str]:
    """What the agent calls a container that runs."""
    uid, status = pod["metadata"]["uid"], pod.get("status") or {}
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if each["name"] == container:
            return uid, str(each.get("containerID") or "").removeprefix(f"pliant://{uid}/")
    return uid, ""
