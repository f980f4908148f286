"""Run a short command in a running container and hear what it says, within a time limit."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from pliant.embedded.node.link import NodeAgent, Streams

_LONGEST = 10 << 10
"""So much of the output is kept."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended: its exit code, or None when its time was up, and what it wrote."""

    code: int | None
    output: str


async def executed(
    agent: NodeAgent, container: tuple[str, str], argv: Sequence[str], *, within: float | None
) -> Outcome:
    """The outcome of a command in the container of that pod and run; killed when its time is up.

    Raises `StartFailed` when it cannot be started. Whoever stops waiting has it killed, too.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    nothing = os.open(os.devnull, os.O_RDONLY)
    heard = _Heard(reading)
    try:
        os.set_blocking(writing, True)
        session = await agent.execute(*container, argv, Streams(input=nothing, output=writing, errors=writing))
        try:
            # Not wait_for, which may forget that it was cancelled when the end comes at the same time.
            async with asyncio.timeout(within):
                ending = await asyncio.shield(session.ending)
        except BaseException as problem:
            session.send_signal(signal.SIGKILL)
            if not isinstance(problem, TimeoutError):
                raise
            return Outcome(None, heard.text())
        return Outcome(ending.code, heard.text())
    finally:
        os.close(writing)
        os.close(nothing)
        heard.close()


class _Heard:
    """Takes in what comes out of a pipe, so that the writer never waits."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._kept = b""
        asyncio.get_running_loop().add_reader(pipe, self._read)

    def text(self) -> str:
        """All that has been written, up to a limit."""
        self._read()
        return self._kept.decode(errors="replace")

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe)
        os.close(self._pipe)

    def _read(self) -> None:
        try:
            while chunk := os.read(self._pipe, 1 << 16):
                self._kept = (self._kept + chunk)[:_LONGEST]
        except BlockingIOError:
            return
        asyncio.get_running_loop().remove_reader(self._pipe)
