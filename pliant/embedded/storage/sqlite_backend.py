"""Committed objects on disk: one SQLite file in WAL mode, synchronised before anybody hears of a write."""

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
    """Keeps committed changes; `commit` returns only when they would survive a power cut."""

    def commit(self, changes: Iterable[ObjectChange]) -> None:
        """Write a group of changes, all or none."""

    def close(self) -> None:
        """Give the file back."""


def _initialize_database(db: sqlite3.Connection) -> None:
    # A second server on the same file would not see the first one's memory.
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    layout = db.execute("PRAGMA user_version").fetchone()[0]
    if layout not in (0, _SCHEMA_VERSION):
        raise UnsupportedEnvironment(f"it was written by another version of this program (layout {layout})")
    db.executescript(_CREATE_TABLES_SQL)
    db.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


class SqliteBackend:
    """The present state of every object, and the version of the last change."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    @classmethod
    def open(cls, path: Path) -> SqliteBackend:
        """Open or create the file, readable by its owner alone; only one server may have it open."""
        path.touch(mode=0o600, exist_ok=True)
        # One thread at a time uses it: the loop's while opening, the writer's afterwards.
        db = sqlite3.connect(path, timeout=0.5, isolation_level=None, check_same_thread=False)
        try:
            _initialize_database(db)
        except (sqlite3.DatabaseError, UnsupportedEnvironment) as problem:
            db.close()
            locked = "locked" in str(problem)
            why = "another server has it open: stop that one, or choose another data folder" if locked else problem
            raise UnsupportedEnvironment(f"cannot use {path}: {why}") from problem
        return cls(db)

    def last_version(self) -> int:
        """The version of the last committed change."""
        return int(self._db.execute("SELECT version FROM counter").fetchone()[0])

    def load_objects(self) -> Iterator[StoredObject]:
        """Every object kept."""
        for resource, body in self._db.execute("SELECT resource, body FROM objects"):
            yield to_stored_object(resource, decode_object(body))

    def commit(self, changes: Iterable[ObjectChange]) -> None:
        """Write the last state of each object changed, all or none, and synchronise the file."""
        last: dict[ObjectKey, ObjectChange] = {event.after.key: event for event in changes}
        version = max(event.version for event in last.values())
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany(_DELETE_SQL, [key for key, event in last.items() if event.is_deleted])
            self._db.executemany(
                _UPSERT_SQL, [(*key, event.after.body) for key, event in last.items() if not event.is_deleted]
            )
            self._db.execute(_SET_VERSION_SQL, (version,))
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Fold the log into the file and give it back."""
        self._db.close()
