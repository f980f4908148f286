"""The object store: writes are decided in order at once, and acknowledged after a group commit."""

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
    """A write that is being decided; it sees all writes decided before it, committed or not."""

    def __init__(
        self, committed: ObjectIndex, uncommitted: dict[ObjectKey, ObjectChange], version: int, *, dry_run: bool
    ) -> None:
        self.committed = committed
        self.version = version
        self.changes: list[ObjectChange] = []
        self._dry_run = dry_run
        self._uncommitted = uncommitted
        self._own_changes: dict[ObjectKey, ObjectChange] = {}

    @property
    def is_dry_run(self) -> bool:
        return self._dry_run

    def list_objects(self, resource: str, namespace: str = "") -> Sequence[StoredObject]:
        """Return objects as the index does, with all changes decided before and by this transaction."""
        committed = self.committed.list_objects(resource, namespace)
        changes = {
            key: change
            for changes in (self._uncommitted, self._own_changes)
            for key, change in changes.items()
            if key.resource == resource and (not namespace or key.namespace == namespace)
        }
        if not changes:
            return committed
        objects = {record.key: record for record in committed}
        for key, change in changes.items():
            if change.is_deleted:
                objects.pop(key, None)
            else:
                objects[key] = change.after
        return [objects[key] for key in sorted(objects)]

    def get(self, key: ObjectKey) -> StoredObject | None:
        change = self._own_changes.get(key) or self._uncommitted.get(key)
        if change is not None:
            return None if change.is_deleted else change.after
        return self.committed.get(key)

    def put(self, resource: str, obj: Object) -> StoredObject:
        """Create or replace an object; set its resource version in place, except in a dry run."""
        return self._add_change(resource, obj, is_deleted=False)

    def remove(self, resource: str, obj: Object) -> StoredObject:
        """Delete an object; `obj` is its last state, which watches receive."""
        return self._add_change(resource, obj, is_deleted=True)

    def _add_change(self, resource: str, obj: Object, *, is_deleted: bool) -> StoredObject:
        if not self._dry_run:
            self.version += 1
            obj["metadata"]["resourceVersion"] = str(self.version)
        after = to_stored_object(resource, obj)
        change = ObjectChange(self.get(after.key), after, is_deleted)
        self._own_changes[after.key] = change
        self.changes.append(change)
        return after


class _CommitGroup:
    def __init__(self, done: asyncio.Future[None]) -> None:
        self.changes: list[ObjectChange] = []
        self.done = done


class Store:
    """All objects of one cluster, with one version counter.

    `write` runs a synchronous decision against everything decided before it, then waits until its group is on
    disk. Only then do the index, listeners, watches and the caller see it, in that order. Without a backend the
    changes are published at once.
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
        return cls(ObjectIndex(0, max_history), None)

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, *, max_history: int = MAX_HISTORY_CHANGES) -> AsyncIterator[Store]:
        """Open a store in a file, with all objects that were committed to it."""
        backend = SqliteBackend.open(path)
        try:
            index = ObjectIndex(backend.last_version(), max_history)
            index.load(backend.load_objects())
        except BaseException:
            backend.close()
            raise
        async with cls(index, backend).run_writer() as store:
            yield store

    @asynccontextmanager
    async def run_writer(self) -> AsyncIterator[Store]:
        """Run the writer thread; on exit, wait for pending commits and close the backend."""
        with ThreadPoolExecutor(1, thread_name_prefix="store-writer") as self._writer:
            try:
                yield self
            finally:
                try:
                    await self._wait_committed()
                finally:
                    if self._backend is not None:
                        # In the writer thread: a commit may still be running there.
                        self._writer.submit(self._backend.close)

    def add_listener(self, listener: ChangeListener) -> None:
        """Call `listener` with changes when they become visible, before their writers get a response."""
        self._listeners.append(listener)

    async def run_transaction(self, decide: Callable[[Transaction], T], *, dry_run: bool = False) -> T:
        """Run `decide` and commit its changes; if it raises an error, nothing changes.

        Errors and no-ops also wait for uncommitted changes: no caller may see a state that is not yet durable.
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
            # Shielded: a caller that is cancelled must not cancel the commit of the other writes of the group.
            await asyncio.shield(self._add_to_group(transaction.changes))
        return result

    def read_only_transaction(self) -> Transaction:
        """Return a transaction for reading, whose writes are never stored."""
        return Transaction(self.committed, self._uncommitted, self._version, dry_run=True)

    async def _wait_committed(self) -> None:
        group = self._open_group or self._committing_group
        if group is not None:
            await asyncio.shield(group.done)

    def _add_to_group(self, changes: list[ObjectChange]) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        if self._open_group is None:
            self._open_group = _CommitGroup(loop.create_future())
            if self._committing_group is None:
                # Not at once: writes decided in the same iteration of the event loop share one commit.
                loop.call_soon(self._start_commit, loop)
        self._open_group.changes.extend(changes)
        self._uncommitted.update((change.after.key, change) for change in changes)
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
        for change in group.changes:
            if self._uncommitted.get(change.after.key) is change:
                del self._uncommitted[change.after.key]
        self._publish_changes(group.changes)
        group.done.set_result(None)
        if self._open_group is not None:
            self._start_commit(loop)

    def _fail_group(self, group: _CommitGroup, error: BaseException) -> None:
        """Reject a group that could not be committed, and all writes that were decided on top of it."""
        log.error("commit failed", extra={"writes": len(group.changes)}, exc_info=error)
        failed = (group,) if self._open_group is None else (group, self._open_group)
        self._open_group = None
        self._uncommitted.clear()
        for each in failed:
            each.done.set_exception(ServerError(500, "InternalError", f"cannot store the write: {error}"))
            each.done.exception()  # marks it as retrieved: all of its writers may be cancelled

    def _publish_changes(self, changes: Sequence[ObjectChange]) -> None:
        self.committed.apply_changes(changes)
        for listener in self._listeners:
            listener(changes)
