"""Wakes those who wait for news: each costs one future, and nothing while it waits."""

from __future__ import annotations

import asyncio
from collections import OrderedDict


class Bell:
    """Whoever waits is woken in the order of coming."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    async def wait(self, seconds: float) -> None:
        """Return when it rings, or after so many seconds."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        try:
            await asyncio.wait_for(future, seconds)
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.ring(1)  # it rang for us, but we are leaving: it is the next one's turn
            raise
        finally:
            self._waiting.pop(future, None)

    def ring(self, most: int | None = None) -> None:
        """Wake everybody, or so many."""
        while self._waiting and (most is None or most > 0):
            future, _ = self._waiting.popitem(last=False)
            if not future.done():
                future.set_result(None)
                most = most if most is None else most - 1
