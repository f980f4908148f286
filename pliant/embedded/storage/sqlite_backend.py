"""Durable storage of objects: one SQLite file in WAL mode, synchronized before a write is acknowledged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from pliant.embedded.storage.stored_objects import (
    ObjectChange,
    ObjectKey,
    StoredObject,
    decode_object,
    to_stored_object,
)
from pliant.errors import UnsupportedEnvironment

_SCHEMA_VERSION = 1
_CREATE_TABLES_SQL = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL);
INSERT OR IGNORE INTO counter VALUES (1, 0);
"""
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
    schema_version = db.execute("PRAGMA user_version").fetchone()[0]
    if schema_version not in (0, _SCHEMA_VERSION):
        raise UnsupportedEnvironment(f"another version of pliant wrote it (schema version {schema_version})")
    db.executescript(_CREATE_TABLES_SQL)
    db.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


class SqliteBackend:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    @classmethod
    def open(cls, path: Path) -> SqliteBackend:
        """Open or create the file, with mode 0600; only one server may have it open."""
        path.touch(mode=0o600, exist_ok=True)
        # One thread at a time uses it: the event loop's while opening, then the writer's.
        db = sqlite3.connect(path, timeout=0.5, isolation_level=None, check_same_thread=False)
        try:
            _initialize_database(db)
        except (sqlite3.DatabaseError, UnsupportedEnvironment) as error:
            db.close()
            locked = "locked" in str(error)
            reason = "another cluster has it open: stop it or choose another data directory" if locked else error
            raise UnsupportedEnvironment(f"cannot use {path}: {reason}") from error
        return cls(db)

    def last_version(self) -> int:
        return int(self._db.execute("SELECT version FROM counter").fetchone()[0])

    def load_objects(self) -> Iterator[StoredObject]:
        for resource, body in self._db.execute("SELECT resource, body FROM objects"):
            yield to_stored_object(resource, decode_object(body))

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
