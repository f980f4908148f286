"""Wakes those who wait for news: each costs one future and one timer, and nothing while it waits."""

from __future__ import annotations

import asyncio


class Bell:
    """Whoever waits is woken when it rings."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self, seconds: float) -> None:
        """Return when it rings, or after so many seconds."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await asyncio.wait([future], timeout=seconds)
        finally:
            self._waiting.discard(future)

    def ring(self) -> None:
        """Wake everybody."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            future.set_result(None)
