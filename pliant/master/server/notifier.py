"""Wakes long polls of members, of which a limited number may wait."""

from __future__ import annotations

import asyncio

from pliant.master.model import MasterBusy

MAX_WAITING_REQUESTS = 20_000
"""The limit of requests that wait for one kind of change: two for each member of the largest job."""


class LongPollNotifier:
    """Wakes waiting requests; each costs one future and one timer."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self, timeout: float) -> None:
        if len(self._waiting) >= MAX_WAITING_REQUESTS:
            raise MasterBusy(f"wait: {MAX_WAITING_REQUESTS} requests are waiting already; send it later, or `wait` 0")
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await asyncio.wait([future], timeout=timeout)
        finally:
            self._waiting.discard(future)

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            future.set_result(None)
