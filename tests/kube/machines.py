"""Several computers on one event loop: each can be stopped, cut off and have clocks of its own."""

from __future__ import annotations

import asyncio
import contextvars
import types
from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from pliant.errors import Unreachable
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport
from tests.virtual_time import VirtualClock

T = TypeVar("T")


class Line(Enum):
    """How a machine is connected."""

    FINE = "fine"
    REFUSING = "refusing"
    SILENT = "silent"
    DEAF = "deaf"
    """Requests arrive, but no answer does."""


@dataclass(frozen=True)
class Sent:
    """A request that a machine began to send."""

    at: float
    machine: str
    request: Request


class Machine:
    """A computer whose tasks stop when told to, while its clocks go on."""

    def __init__(self, name: str, server: Transport, sent: list[Sent], *, skew: timedelta = timedelta(0)) -> None:
        self.name = name
        self.line = Line.FINE
        self.sent = sent
        self._server = server
        self._skew = skew
        self._asleep: list[asyncio.Future[None]] | None = None

    def now(self) -> datetime:
        """The time of day, as this machine believes."""
        return VirtualClock().now() + self._skew

    def uptime(self) -> float:
        """Seconds since this machine was started, which was long before or after the others."""
        return VirtualClock().uptime() + self._skew.total_seconds()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something on this machine."""
        context = contextvars.copy_context()
        context.run(_MACHINE.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    def freeze(self) -> None:
        """Stop everything that runs here."""
        self._asleep = self._asleep or []

    def thaw(self) -> None:
        """Let everything go on."""
        asleep, self._asleep = self._asleep or [], None
        for sleeper in asleep:
            if not sleeper.done():
                sleeper.set_result(None)

    async def send(self, request: Request) -> Reply:
        """Exchange one request, as far as the line allows."""
        self.sent.append(Sent(asyncio.get_running_loop().time(), self.name, request))
        try:
            async with asyncio.timeout(request.timeout):
                return await self._exchange(request)
        except TimeoutError:
            raise Unreachable("no answer in time") from None

    async def _exchange(self, request: Request) -> Reply:
        if self.line is Line.REFUSING:
            raise Unreachable("connection refused")
        if self.line is Line.SILENT:
            await asyncio.Event().wait()
        # The server is another computer: it carries on with what has reached it.
        carried_out = asyncio.get_running_loop().create_task(self._server.send(request), context=contextvars.Context())
        if self.line is Line.DEAF:
            await asyncio.wait([carried_out])
            raise Unreachable("connection reset")
        return await asyncio.shield(carried_out)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        """Open a stream."""
        self.sent.append(Sent(asyncio.get_running_loop().time(), self.name, request))
        if self.line is not Line.FINE:
            raise Unreachable("connection refused")
        async with self._server.stream(request) as reply:
            yield reply

    async def aclose(self) -> None:
        """Nothing is held."""

    async def freezable(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine which goes on only while the machine does."""
        return await self._steps(work)

    @types.coroutine
    def _steps(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        step = partial(work.send, None)
        while True:
            while self._asleep is not None:
                sleeper = asyncio.get_running_loop().create_future()
                self._asleep.append(sleeper)
                try:
                    yield from sleeper
                except asyncio.CancelledError as cancelled:
                    step = partial(work.throw, cancelled)
            try:
                awaited = step()
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                step = partial(work.send, (yield awaited))
            except BaseException as error:
                step = partial(work.throw, error)


_MACHINE: contextvars.ContextVar[Machine | None] = contextvars.ContextVar("machine", default=None)


def tasks_belong_to_machines() -> None:
    """Let each task started on a machine, and those that it starts, stop and go on with it."""
    asyncio.get_running_loop().set_task_factory(_task_of_machine)


def _task_of_machine(
    loop: asyncio.AbstractEventLoop, work: Any, context: contextvars.Context | None = None, **options: Any
) -> asyncio.Task[Any]:
    machine = _MACHINE.get() if context is None else context.get(_MACHINE)
    if machine is not None:
        work = machine.freezable(work)
    return asyncio.Task(work, loop=loop, context=context, **options)
