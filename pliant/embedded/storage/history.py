"""The recent past of one resource, replayed to watchers from any version that is still kept."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from operator import attrgetter

from pliant.embedded.storage.records import Event
from pliant.errors import Gone

_VERSION = attrgetter("version")


class History:
    """Events in the order of their versions; readers pull, so a slow one costs nobody anything.

    Everything after `horizon` is kept. A reader that asks from before it gets `Gone` and has to list again.
    """

    def __init__(self, horizon: int, keep: int) -> None:
        self.horizon = horizon
        self._keep = keep
        self._events: list[Event] = []
        self._waiting: set[asyncio.Future[None]] = set()

    def append(self, event: Event) -> None:
        """Remember one more change, forgetting the oldest in bulk now and then."""
        self._events.append(event)
        if len(self._events) > self._keep + self._keep // 4:
            surplus = len(self._events) - self._keep
            self.horizon = self._events[surplus - 1].version
            del self._events[:surplus]

    def since(self, version: int) -> list[Event]:
        """Every change after `version`; raises `Gone` when some of them are forgotten."""
        if version < self.horizon:
            raise Gone(410, "Expired", f"too old resource version: {version} ({self.horizon})")
        if not self._events or self._events[-1].version <= version:
            return []
        return self._events[bisect_right(self._events, version, key=_VERSION) :]

    def wake(self) -> None:
        """Let waiting readers look again."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def changed(self) -> None:
        """Return at the next `wake`."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)
