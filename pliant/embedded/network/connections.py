"""Connections that are being served, so that all of them can be ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any


class Connections:
    """Knows the tasks that serve connections."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    @contextmanager
    def noted(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        """Count the present task among them for as long as the block runs; then its connection is closed."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)
            writer.close()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Serve something in a task of its own."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Break all of them off."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
