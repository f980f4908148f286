"""The conversation with the agent: questions and answers as JSON lines, and news of what has ended."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Callable
from typing import Any

import msgspec

from pliant.embedded.node.agentprocess import AgentLost, StartFailed
from pliant.embedded.node.commands import Ending

_KILLED = Ending(128 + signal.SIGKILL, int(signal.SIGKILL))


class Channel(asyncio.Protocol):
    """JSON lines to the agent and back; answers find their question by its number."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._numbers = itertools.count(1)
        self._questions: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._endings: dict[tuple[str, str], asyncio.Future[Ending]] = {}
        self._heard = b""
        self.heard_at = 0.0
        """When the agent last said anything, by the clock of the loop."""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._hear(msgspec.json.decode(line))

    def connection_lost(self, exc: Exception | None) -> None:
        """Everything that ran has died: whoever must know before those who wait for it is told first."""
        if self.lost.done():
            return
        self.lost.set_result(None)
        self._on_lost()
        for question in self._questions.values():
            if not question.done():
                question.set_exception(AgentLost("the node agent ended before it answered"))
        for ending in self._endings.values():
            if not ending.done():
                ending.set_result(_KILLED)

    def close(self) -> None:
        """Hang up on purpose: nobody is told."""
        self._on_lost = _nobody
        if self._transport is not None:
            self._transport.abort()

    def next_number(self) -> int:
        """A number for a question that is about to be asked."""
        return next(self._numbers)

    def tell(self, do: str, *, number: int | None = None, **details: object) -> int:
        """Ask for something whose answer nobody awaits; the number of the question."""
        number = number or next(self._numbers)
        if self._transport is not None and not self.lost.done():
            self._transport.write(msgspec.json.encode({"id": number, "do": do, **details}) + b"\n")
        return number

    async def ask(self, do: str, *, number: int | None = None, **details: object) -> dict[str, Any]:
        """Ask for something; the answer, or StartFailed with the reason why not."""
        if self.lost.done():
            raise AgentLost("the node agent is gone")
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._questions[self.tell(do, number=number, **details)] = answer
        return await answer

    def expect_end(self, pod: str, run: str) -> asyncio.Future[Ending]:
        """How a run that is about to start will end."""
        ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._endings[pod, run] = ending
        return ending

    def forget_end(self, pod: str, run: str) -> None:
        """It did not start."""
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
            told = Ending(message["code"], message["signal"], message.get("outgrown", False))
            ending.set_result(told)


def _nobody() -> None:
    """Nobody wants to know."""
