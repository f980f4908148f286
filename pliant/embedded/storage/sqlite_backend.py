"""Durable storage of objects: one SQLite file in WAL mode, synchronized before a write is acknowledged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from pliant.embedded.storage.database_check import (
    SCHEMA_VERSION,
    check_database,
    damaged,
    explain_database_error,
    mark_created,
)
from pliant.embedded.storage.stored_objects import (
    ObjectChange,
    ObjectKey,
    StoredObject,
    decode_object,
    to_stored_object,
)
from pliant.errors import UnsupportedEnvironment

_CREATE_TABLES_SQL = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL);
INSERT OR IGNORE INTO counter VALUES (1, 0);
"""
_SELECT_SQL = "SELECT resource, namespace, name, body FROM objects"
_UPSERT_SQL = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)"
_DELETE_SQL = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
_SET_VERSION_SQL = "UPDATE counter SET version = ? WHERE id = 1"


class StorageBackend(Protocol):
    """Stores committed changes; `commit` returns when they would survive a power failure."""

    def commit(self, changes: Iterable[ObjectChange]) -> None: ...

    def close(self) -> None: ...


def _initialize_database(db: sqlite3.Connection) -> None:
    # A second API server on the same file would not see the objects that the first one holds in memory.
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    if db.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
        db.executescript(_CREATE_TABLES_SQL)
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


class SqliteBackend:
    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self._path = path

    @classmethod
    def open(cls, path: Path) -> SqliteBackend:
        """Open or create the file, with mode 0600; only one server may have it open.

        Raise DamagedDatabase, or UnsupportedEnvironment, without changing a file that cannot be used.
        """
        check_database(path)
        try:
            path.touch(mode=0o600, exist_ok=True)
        except OSError as error:
            raise UnsupportedEnvironment(f"cannot create {path}: {error.strerror}") from None
        # One thread at a time uses it: the event loop's while opening, then the writer's.
        db = sqlite3.connect(path, timeout=0.5, isolation_level=None, check_same_thread=False)
        try:
            _initialize_database(db)
            mark_created(path)
        except sqlite3.DatabaseError as error:
            db.close()
            raise explain_database_error(path, error) from error
        except OSError as error:
            db.close()
            raise UnsupportedEnvironment(f"cannot write beside {path}: {error.strerror}") from None
        return cls(db, path)

    def last_version(self) -> int:
        return int(self._db.execute("SELECT version FROM counter").fetchone()[0])

    def set_version(self, version: int) -> None:
        self._db.execute(_SET_VERSION_SQL, (version,))

    def load_objects(self) -> Iterator[StoredObject]:
        """Yield all objects; raise DamagedDatabase at one that cannot be read."""
        try:
            for resource, namespace, name, body in self._db.execute(_SELECT_SQL):
                key = ObjectKey(resource, namespace, name)
                yield self._decode(key, body)
        except sqlite3.DatabaseError as error:
            raise explain_database_error(self._path, error) from error

    def _decode(self, key: ObjectKey, body: bytes) -> StoredObject:
        try:
            found = to_stored_object(key.resource, decode_object(body))
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError):
            found = None
        if found is None or found.key != key:
            raise damaged(self._path, f"the object {'/'.join(filter(None, key))} cannot be read")
        return found

    def commit(self, changes: Iterable[ObjectChange]) -> None:
        """Write the last state of each changed object in one transaction, and synchronize the file."""
        last: dict[ObjectKey, ObjectChange] = {change.after.key: change for change in changes}
        version = max(change.version for change in last.values())
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany(_DELETE_SQL, [key for key, change in last.items() if change.is_deleted])
            self._db.executemany(
                _UPSERT_SQL, [(*key, change.after.body) for key, change in last.items() if not change.is_deleted]
            )
            self._db.execute(_SET_VERSION_SQL, (version,))
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._db.close()
