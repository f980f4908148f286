"""Wakes those who wait for news: each costs one future and one timer, and nothing while it waits."""

from __future__ import annotations

import asyncio


class LongPollNotifier:
    """Whoever waits is woken when it rings."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self, timeout: float) -> None:
        """Return when it rings, or after so many seconds."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await asyncio.wait([future], timeout=timeout)
        finally:
            self._waiting.discard(future)

    def notify_all(self) -> None:
        """Wake everybody."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            future.set_result(None)
