"""What the next master must know: one small JSON value, saved on a shelf whenever it has changed.

Saving lags by a second, and by three if only shards have changed hands. What is forgotten by that is harmless:
members say again what they did in the last seconds, and a round or a generation that they have seen and the new
master has not is passed as soon as one of them speaks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from pliant.errors import ApiError, PliantError

LARGEST = 900_000
"""Bytes: a ConfigMap holds a little more than that."""
FORMAT = 1
LAG = 2
"""Pauses that may pass before what is not urgent is saved."""
LONGEST_PAUSE = 10.0
"""Seconds between two tries to save while the API server is away."""

log = logging.getLogger(__name__)


class Superseded(PliantError):
    """Another master has written since: it works on, and we must not."""


class Shelf(Protocol):
    """Keeps one value."""

    async def load(self) -> bytes | None:
        """What was saved last; None if nothing ever was."""

    async def save(self, value: bytes) -> None:
        """Keep a value in place of the last; raises Superseded if that is not ours any more."""


class HandyShelf:
    """Keeps the value in this process, for tests and for masters that nobody replaces."""

    def __init__(self, value: bytes | None = None) -> None:
        self.value = value
        self.saves = 0

    async def load(self) -> bytes | None:
        """What was saved last."""
        return self.value

    async def save(self, value: bytes) -> None:
        """Keep a value."""
        self.value = value
        self.saves += 1


class Keeper:
    """Saves what has changed, soon but not often."""

    def __init__(self, shelf: Shelf, value: Callable[[], dict[str, Any]], pause: float) -> None:
        self._shelf = shelf
        self._value = value
        self._pause = pause
        self._changed, self._urgent = asyncio.Event(), asyncio.Event()

    def remember(self, *, soon: bool = True) -> None:
        """Have the value saved soon, or some time later: members say again what they did in the last seconds."""
        self._changed.set()
        if soon:
            self._urgent.set()

    async def load(self) -> dict[str, Any] | None:
        """What was saved last, which is saved again at once: so an earlier master learns that it is over."""
        found = await self._shelf.load()
        if found is None:
            return None
        try:
            value = msgspec.json.decode(found, type=dict[str, Any])
        except msgspec.MsgspecError as problem:
            value = {"format": f"unreadable ({problem})"}
        if value.get("format") != FORMAT:
            log.error("memory left aside", extra={"because": f"its format is {value.get('format')}, not {FORMAT}"})
            return None
        await self._shelf.save(found)
        return value

    async def run(self) -> None:
        """Save for ever."""
        pause = self._pause
        while True:
            await self._changed.wait()
            with suppress(TimeoutError):
                # Not wait_for: Python 3.11's forgets to stop when it is told to in the moment of the news.
                async with asyncio.timeout(LAG * self._pause):
                    await self._urgent.wait()
            try:
                await self.save()
                pause = self._pause
            except ApiError as problem:
                self._changed.set()
                pause = min(2 * pause, LONGEST_PAUSE)
                log.warning("memory not saved yet", extra={"because": str(problem)})
            await asyncio.sleep(pause)

    async def save(self) -> None:
        """Save now, if anything changed."""
        if not self._changed.is_set():
            return
        self._changed.clear()
        self._urgent.clear()
        value = {"format": FORMAT, **self._value()}
        found = msgspec.json.encode(value)
        if len(found) > LARGEST:
            sizes = {name: len(msgspec.json.encode(part)) for name, part in value.items()}
            log.error("memory too large to be saved", extra={"bytes": len(found), "most": LARGEST, "parts": sizes})
            return
        await self._shelf.save(found)
