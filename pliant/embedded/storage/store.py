"""Optimistic writes with group commit: decided in order at once, seen and answered only when durable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from pliant.embedded.storage.journal import Journal, SqliteJournal
from pliant.embedded.storage.records import Event, Key, Object, Record, record
from pliant.embedded.storage.shelves import Shelves
from pliant.errors import ApiError, ServerError

T = TypeVar("T")
Listener = Callable[[Sequence[Event]], None]

KEPT_EVENTS = 8192

log = logging.getLogger(__name__)


class Transaction:
    """One write being decided: sees every write decided before it, committed or not."""

    def __init__(self, shelves: Shelves, staged: dict[Key, Event], version: int, *, dry_run: bool) -> None:
        self.visible = shelves
        self.version = version
        self.events: list[Event] = []
        self._dry_run = dry_run
        self._staged = staged
        self._own: dict[Key, Event] = {}

    def get(self, key: Key) -> Record | None:
        """The state this write would build upon."""
        event = self._own.get(key) or self._staged.get(key)
        if event is not None:
            return None if event.gone else event.after
        return self.visible.get(key)

    def put(self, resource: str, obj: Object) -> Record:
        """Create or replace an object; its resource version is set in place, except in a dry run."""
        return self._add(resource, obj, gone=False)

    def remove(self, resource: str, obj: Object) -> Record:
        """Take an object away; `obj` is the state told to those who watch."""
        return self._add(resource, obj, gone=True)

    def _add(self, resource: str, obj: Object, *, gone: bool) -> Record:
        if not self._dry_run:
            self.version += 1
            obj["metadata"]["resourceVersion"] = str(self.version)
        after = record(resource, obj)
        event = Event(self.get(after.key), after, gone)
        self._own[after.key] = event
        self.events.append(event)
        return after


class _Group:
    """Writes that share one commit."""

    def __init__(self, done: asyncio.Future[None]) -> None:
        self.events: list[Event] = []
        self.done = done


class Store:
    """All objects of one cluster, with one counter of versions.

    `write` runs a synchronous decision against everything decided before it, then waits until its group is on
    disk. Only then do memory, listeners, watchers and the caller learn of it, in that order. Without a journal the
    same happens at once, in the caller's own step.
    """

    def __init__(self, shelves: Shelves, journal: Journal | None) -> None:
        self.visible = shelves
        self._journal = journal
        self._writer: ThreadPoolExecutor | None = None
        self._version = shelves.version
        self._staged: dict[Key, Event] = {}
        self._filling: _Group | None = None
        self._flying: _Group | None = None
        self._listeners: list[Listener] = []

    @classmethod
    def in_memory(cls, *, keep: int = KEPT_EVENTS) -> Store:
        """A store that forgets everything at its end and never waits."""
        return cls(Shelves(0, keep), None)

    @classmethod
    @asynccontextmanager
    async def opened(cls, path: Path, *, keep: int = KEPT_EVENTS) -> AsyncIterator[Store]:
        """A store kept in a file, with all it held when it was last closed or killed."""
        journal = SqliteJournal.open(path)
        shelves = Shelves(journal.version(), keep)
        shelves.load(journal.records())
        async with cls(shelves, journal).committing() as store:
            yield store

    @asynccontextmanager
    async def committing(self) -> AsyncIterator[Store]:
        """Own the writer thread and the journal for as long as the store is used."""
        with ThreadPoolExecutor(1, thread_name_prefix="journal") as self._writer:
            try:
                yield self
            finally:
                try:
                    await self._settled()
                finally:
                    if self._journal is not None:
                        # In its own thread: a commit may still be under way there.
                        self._writer.submit(self._journal.close)

    def listen(self, listener: Listener) -> None:
        """Call `listener` with changes as they become visible, before their writers are answered."""
        self._listeners.append(listener)

    async def write(self, decide: Callable[[Transaction], T], *, dry_run: bool = False) -> T:
        """Run `decide` and commit what it changed; an error it raises changes nothing.

        Nobody may be told of a state that is not yet durable: refusals and no-ops wait for what they build on.
        """
        transaction = Transaction(self.visible, self._staged, self._version, dry_run=dry_run)
        try:
            result = decide(transaction)
        except ApiError:
            await self._settled()
            raise
        if dry_run or not transaction.events:
            await self._settled()
            return result
        self._version = transaction.version
        if self._journal is None:
            self._publish(transaction.events)
        else:
            # Shielded: a caller who goes away does not take back what the others of the group wrote.
            await asyncio.shield(self._stage(transaction.events))
        return result

    async def _settled(self) -> None:
        """Wait until everything decided so far is committed."""
        group = self._filling or self._flying
        if group is not None:
            await asyncio.shield(group.done)

    def _stage(self, events: list[Event]) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        if self._filling is None:
            self._filling = _Group(loop.create_future())
            if self._flying is None:
                # Not at once: writes decided in the same turn of the loop share one synchronisation.
                loop.call_soon(self._launch, loop)
        self._filling.events.extend(events)
        self._staged.update((event.after.key, event) for event in events)
        return self._filling.done

    def _launch(self, loop: asyncio.AbstractEventLoop) -> None:
        group, self._filling = self._filling, None
        if group is None or self._journal is None:
            return
        self._flying = group
        commit = loop.run_in_executor(self._writer, self._journal.commit, group.events)
        commit.add_done_callback(partial(self._landed, loop, group))

    def _landed(self, loop: asyncio.AbstractEventLoop, group: _Group, commit: asyncio.Future[None]) -> None:
        self._flying = None
        error = commit.exception()
        if error is not None:
            self._abandon(group, error)
            return
        for event in group.events:
            if self._staged.get(event.after.key) is event:
                del self._staged[event.after.key]
        self._publish(group.events)
        group.done.set_result(None)
        if self._filling is not None:
            self._launch(loop)

    def _abandon(self, group: _Group, error: BaseException) -> None:
        """Refuse a group that could not be kept, and everything that was decided on top of it."""
        log.error("commit failed", extra={"writes": len(group.events)}, exc_info=error)
        failed = (group,) if self._filling is None else (group, self._filling)
        self._filling = None
        self._staged.clear()
        for each in failed:
            each.done.set_exception(ServerError(500, "InternalError", f"the write could not be kept: {error}"))
            each.done.exception()  # seen: its writers may all have gone away

    def _publish(self, events: Sequence[Event]) -> None:
        self.visible.apply(events)
        for listener in self._listeners:
            listener(events)
