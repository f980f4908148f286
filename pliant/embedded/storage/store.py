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

from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.sqlite_backend import SqliteBackend, StorageBackend
from pliant.embedded.storage.stored_objects import Object, ObjectChange, ObjectKey, StoredObject, to_stored_object
from pliant.errors import ApiError, ServerError

T = TypeVar("T")
ChangeListener = Callable[[Sequence[ObjectChange]], None]

MAX_HISTORY_CHANGES = 8192

log = logging.getLogger(__name__)


class Transaction:
    """One write being decided: sees every write decided before it, committed or not."""

    def __init__(
        self, committed: ObjectIndex, uncommitted: dict[ObjectKey, ObjectChange], version: int, *, dry_run: bool
    ) -> None:
        self.committed = committed
        self.version = version
        self.changes: list[ObjectChange] = []
        self._dry_run = dry_run
        self._uncommitted = uncommitted
        self._own: dict[ObjectKey, ObjectChange] = {}

    def get(self, key: ObjectKey) -> StoredObject | None:
        """The state this write would build upon."""
        event = self._own.get(key) or self._uncommitted.get(key)
        if event is not None:
            return None if event.is_deleted else event.after
        return self.committed.get(key)

    def put(self, resource: str, obj: Object) -> StoredObject:
        """Create or replace an object; its resource version is set in place, except in a dry run."""
        return self._add_change(resource, obj, is_deleted=False)

    def remove(self, resource: str, obj: Object) -> StoredObject:
        """Take an object away; `obj` is the state told to those who watch."""
        return self._add_change(resource, obj, is_deleted=True)

    def _add_change(self, resource: str, obj: Object, *, is_deleted: bool) -> StoredObject:
        if not self._dry_run:
            self.version += 1
            obj["metadata"]["resourceVersion"] = str(self.version)
        after = to_stored_object(resource, obj)
        event = ObjectChange(self.get(after.key), after, is_deleted)
        self._own[after.key] = event
        self.changes.append(event)
        return after


class _CommitGroup:
    """Writes that share one commit."""

    def __init__(self, done: asyncio.Future[None]) -> None:
        self.changes: list[ObjectChange] = []
        self.done = done


class Store:
    """All objects of one cluster, with one counter of versions.

    `write` runs a synchronous decision against everything decided before it, then waits until its group is on
    disk. Only then do memory, listeners, watchers and the caller learn of it, in that order. Without a journal the
    same happens at once, in the caller's own step.
    """

    def __init__(self, committed: ObjectIndex, backend: StorageBackend | None) -> None:
        self.committed = committed
        self._backend = backend
        self._writer: ThreadPoolExecutor | None = None
        self._version = committed.version
        self._uncommitted: dict[ObjectKey, ObjectChange] = {}
        self._open_group: _CommitGroup | None = None
        self._committing_group: _CommitGroup | None = None
        self._listeners: list[ChangeListener] = []

    @classmethod
    def in_memory(cls, *, max_history: int = MAX_HISTORY_CHANGES) -> Store:
        """A store that forgets everything at its end and never waits."""
        return cls(ObjectIndex(0, max_history), None)

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, *, max_history: int = MAX_HISTORY_CHANGES) -> AsyncIterator[Store]:
        """A store kept in a file, with all it held when it was last closed or killed."""
        journal = SqliteBackend.open(path)
        shelves = ObjectIndex(journal.last_version(), max_history)
        shelves.load(journal.load_objects())
        async with cls(shelves, journal).run_writer() as store:
            yield store

    @asynccontextmanager
    async def run_writer(self) -> AsyncIterator[Store]:
        """Own the writer thread and the journal for as long as the store is used."""
        with ThreadPoolExecutor(1, thread_name_prefix="journal") as self._writer:
            try:
                yield self
            finally:
                try:
                    await self._wait_committed()
                finally:
                    if self._backend is not None:
                        # In its own thread: a commit may still be under way there.
                        self._writer.submit(self._backend.close)

    def add_listener(self, listener: ChangeListener) -> None:
        """Call `listener` with changes as they become visible, before their writers are answered."""
        self._listeners.append(listener)

    async def write(self, decide: Callable[[Transaction], T], *, dry_run: bool = False) -> T:
        """Run `decide` and commit what it changed; an error it raises changes nothing.

        Nobody may be told of a state that is not yet durable: refusals and no-ops wait for what they build on.
        """
        transaction = Transaction(self.committed, self._uncommitted, self._version, dry_run=dry_run)
        try:
            result = decide(transaction)
        except ApiError:
            await self._wait_committed()
            raise
        if dry_run or not transaction.changes:
            await self._wait_committed()
            return result
        self._version = transaction.version
        if self._backend is None:
            self._publish_changes(transaction.changes)
        else:
            # Shielded: a caller who goes away does not take back what the others of the group wrote.
            await asyncio.shield(self._add_to_group(transaction.changes))
        return result

    async def _wait_committed(self) -> None:
        """Wait until everything decided so far is committed."""
        group = self._open_group or self._committing_group
        if group is not None:
            await asyncio.shield(group.done)

    def _add_to_group(self, changes: list[ObjectChange]) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        if self._open_group is None:
            self._open_group = _CommitGroup(loop.create_future())
            if self._committing_group is None:
                # Not at once: writes decided in the same turn of the loop share one synchronisation.
                loop.call_soon(self._start_commit, loop)
        self._open_group.changes.extend(changes)
        self._uncommitted.update((event.after.key, event) for event in changes)
        return self._open_group.done

    def _start_commit(self, loop: asyncio.AbstractEventLoop) -> None:
        group, self._open_group = self._open_group, None
        if group is None or self._backend is None:
            return
        self._committing_group = group
        commit = loop.run_in_executor(self._writer, self._backend.commit, group.changes)
        commit.add_done_callback(partial(self._on_commit_done, loop, group))

    def _on_commit_done(
        self, loop: asyncio.AbstractEventLoop, group: _CommitGroup, commit: asyncio.Future[None]
    ) -> None:
        self._committing_group = None
        error = commit.exception()
        if error is not None:
            self._fail_group(group, error)
            return
        for event in group.changes:
            if self._uncommitted.get(event.after.key) is event:
                del self._uncommitted[event.after.key]
        self._publish_changes(group.changes)
        group.done.set_result(None)
        if self._open_group is not None:
            self._start_commit(loop)

    def _fail_group(self, group: _CommitGroup, error: BaseException) -> None:
        """Refuse a group that could not be kept, and everything that was decided on top of it."""
        log.error("commit failed", extra={"writes": len(group.changes)}, exc_info=error)
        failed = (group,) if self._open_group is None else (group, self._open_group)
        self._open_group = None
        self._uncommitted.clear()
        for each in failed:
            each.done.set_exception(ServerError(500, "InternalError", f"the write could not be kept: {error}"))
            each.done.exception()  # seen: its writers may all have gone away

    def _publish_changes(self, changes: Sequence[ObjectChange]) -> None:
        self.committed.apply_changes(changes)
        for listener in self._listeners:
            listener(changes)
