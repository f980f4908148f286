"""Events are forgotten an hour after they were last written, so that a long life costs no memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from pliant.embedded.storage.records import Event, Key
from pliant.embedded.storage.store import Store, Transaction
from pliant.errors import ServerError

EVENTS = "/events"
LIFETIME_SECONDS = 3600.0


class EventExpiry:
    """Keeps the events by age and sleeps until the oldest has to go; without events it does nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ends: dict[Key, float] = {}
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Forget old events until cancelled."""
        loop = asyncio.get_running_loop()
        self._store.listen(self._notice)
        self._renew(record.key for record in self._store.visible.listing(EVENTS))
        while True:
            await self._woken.wait()
            while self._ends:
                await asyncio.sleep(max(next(iter(self._ends.values())) - loop.time(), 0))
                await self._forget([key for key, end in self._ends.items() if end <= loop.time()])
            self._woken.clear()

    def _notice(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.after.key.resource == EVENTS:
                self._ends.pop(event.after.key, None)
                if not event.gone:
                    self._renew([event.after.key])

    def _renew(self, keys: Iterable[Key]) -> None:
        end = asyncio.get_running_loop().time() + LIFETIME_SECONDS
        self._ends.update(dict.fromkeys(keys, end))
        if self._ends:
            self._woken.set()

    async def _forget(self, old: Sequence[Key]) -> None:
        def decide(transaction: Transaction) -> None:
            for key in old:
                current = transaction.get(key)
                if current is not None:
                    transaction.remove(EVENTS, current.decode())

        try:
            await self._store.write(decide)
        except ServerError:
            # Nothing could be kept, a full disk perhaps: they may stay for another while.
            self._renew(old)
