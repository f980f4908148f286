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

MAX_STATE_BYTES = 900_000
"""Bytes: a ConfigMap holds a little more than that."""
STATE_FORMAT = 1
NON_URGENT_INTERVALS = 2
"""Pauses that may pass before what is not urgent is saved."""
MAX_BACKOFF_SECONDS = 10.0
"""Seconds between two tries to save while the API server is away."""

log = logging.getLogger(__name__)


class MasterSuperseded(PliantError):
    """Another master has written since: it works on, and we must not."""


class CheckpointStore(Protocol):
    """Keeps one value."""

    async def load(self) -> bytes | None:
        """What was saved last; None if nothing ever was."""

    async def save(self, value: bytes) -> None:
        """Keep a value in place of the last; raises Superseded if that is not ours any more."""


class InMemoryCheckpointStore:
    """Keeps the value in this process, for tests and for masters that nobody replaces."""

    def __init__(self, value: bytes | None = None) -> None:
        self.value = value
        self.save_count = 0

    async def load(self) -> bytes | None:
        """What was saved last."""
        return self.value

    async def save(self, value: bytes) -> None:
        """Keep a value."""
        self.value = value
        self.save_count += 1


class Checkpointer:
    """Saves what has changed, soon but not often."""

    def __init__(self, store: CheckpointStore, dump_state: Callable[[], dict[str, Any]], save_interval: float) -> None:
        self._store = store
        self._dump_state = dump_state
        self._save_interval = save_interval
        self._changed, self._urgent = asyncio.Event(), asyncio.Event()

    def request_save(self, *, urgent: bool = True) -> None:
        """Have the value saved soon, or some time later: members say again what they did in the last seconds."""
        self._changed.set()
        if urgent:
            self._urgent.set()

    async def load_checkpoint(self) -> dict[str, Any] | None:
        """What was saved last, which is saved again at once: so an earlier master learns that it is over."""
        found = await self._store.load()
        if found is None:
            return None
        try:
            value = msgspec.json.decode(found, type=dict[str, Any])
        except msgspec.MsgspecError as problem:
            value = {"format": f"unreadable ({problem})"}
        if value.get("format") != STATE_FORMAT:
            log.error(
                "memory left aside", extra={"because": f"its format is {value.get('format')}, not {STATE_FORMAT}"}
            )
            return None
        await self._store.save(found)
        return value

    async def run(self) -> None:
        """Save for ever."""
        pause = self._save_interval
        while True:
            await self._changed.wait()
            with suppress(TimeoutError):
                # Not wait_for: Python 3.11's forgets to stop when it is told to in the moment of the news.
                async with asyncio.timeout(NON_URGENT_INTERVALS * self._save_interval):
                    await self._urgent.wait()
            try:
                await self.save_if_changed()
                pause = self._save_interval
            except ApiError as problem:
                self._changed.set()
                pause = min(2 * pause, MAX_BACKOFF_SECONDS)
                log.warning("memory not saved yet", extra={"because": str(problem)})
            await asyncio.sleep(pause)

    async def save_if_changed(self) -> None:
        """Save now, if anything changed."""
        if not self._changed.is_set():
            return
        self._changed.clear()
        self._urgent.clear()
        value = {"format": STATE_FORMAT, **self._dump_state()}
        found = msgspec.json.encode(value)
        if len(found) > MAX_STATE_BYTES:
            sizes = {name: len(msgspec.json.encode(part)) for name, part in value.items()}
            log.error(
                "memory too large to be saved", extra={"bytes": len(found), "most": MAX_STATE_BYTES, "parts": sizes}
            )
            return
        await self._store.save(found)
