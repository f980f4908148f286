"""Async iteration over what a task produces, independent of the task that iterates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from io import TextIOBase
from typing import TypeVar

from pliant.api.access import api_errors

T = TypeVar("T")

Emit = Callable[[T], None]


async def iterate_task(produce: Callable[[Emit[T]], Awaitable[None]]) -> AsyncGenerator[T, None]:
    """Yield what a task emits until it returns; cancel it if the iteration ends earlier.

    Informers and timeouts live in that task: a generator must not hold them open while its caller runs.
    """
    items: asyncio.Queue[T | None] = asyncio.Queue()

    async def run() -> None:
        try:
            with api_errors():
                await produce(items.put_nowait)
        finally:
            items.put_nowait(None)

    task = asyncio.create_task(run())
    try:
        while (item := await items.get()) is not None:
            yield item
        await task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(task, return_exceptions=True)


class LineWriter(TextIOBase):
    """A text stream that hands over whole lines."""

    def __init__(self, on_line: Emit[str]) -> None:
        self._on_line = on_line
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._on_line(line)
        return len(text)

    def isatty(self) -> bool:
        return False
