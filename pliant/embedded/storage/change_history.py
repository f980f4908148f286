"""The recent past of one resource, replayed to watchers from any version that is still kept."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from operator import attrgetter

from pliant.embedded.storage.stored_objects import ObjectChange
from pliant.errors import Gone

_BY_VERSION = attrgetter("version")


class ChangeHistory:
    """Events in the order of their versions; readers pull, so a slow one costs nobody anything.

    Everything after `horizon` is kept. A reader that asks from before it gets `Gone` and has to list again.
    """

    def __init__(self, oldest_version: int, max_changes: int) -> None:
        self.oldest_version = oldest_version
        self._max_changes = max_changes
        self._changes: list[ObjectChange] = []
        self._waiting: set[asyncio.Future[None]] = set()

    def append(self, change: ObjectChange) -> None:
        """Remember one more change, forgetting the oldest in bulk now and then."""
        self._changes.append(change)
        if len(self._changes) > self._max_changes + self._max_changes // 4:
            surplus = len(self._changes) - self._max_changes
            self.oldest_version = self._changes[surplus - 1].version
            del self._changes[:surplus]

    def changes_since(self, version: int) -> list[ObjectChange]:
        """Every change after `version`; raises `Gone` when some of them are forgotten."""
        if version < self.oldest_version:
            raise Gone(410, "Expired", f"too old resource version: {version} ({self.oldest_version})")
        if not self._changes or self._changes[-1].version <= version:
            return []
        return self._changes[bisect_right(self._changes, version, key=_BY_VERSION) :]

    def notify_readers(self) -> None:
        """Let waiting readers look again."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_changed(self) -> None:
        """Return at the next `wake`."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)
