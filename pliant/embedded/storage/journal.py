"""Committed objects on disk: one SQLite file in WAL mode, synchronised before anybody hears of a write."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from pliant.embedded.storage.records import Event, Key, Record, decode, record
from pliant.errors import NotPossibleHere

_LAYOUT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL);
INSERT OR IGNORE INTO counter VALUES (1, 0);
"""
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)"
_DROP = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
_COUNT = "UPDATE counter SET version = ? WHERE id = 1"


class Journal(Protocol):
    """Keeps committed changes; `commit` returns only when they would survive a power cut."""

    def commit(self, events: Iterable[Event]) -> None:
        """Write a group of changes, all or none."""

    def close(self) -> None:
        """Give the file back."""


def _prepare(db: sqlite3.Connection) -> None:
    # A second server on the same file would not see the first one's memory.
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    layout = db.execute("PRAGMA user_version").fetchone()[0]
    if layout not in (0, _LAYOUT):
        raise NotPossibleHere(f"it was written by another version of this program (layout {layout})")
    db.executescript(_TABLES)
    db.execute(f"PRAGMA user_version = {_LAYOUT}")


class SqliteJournal:
    """The present state of every object, and the version of the last change."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    @classmethod
    def open(cls, path: Path) -> SqliteJournal:
        """Open or create the file, readable by its owner alone; only one server may have it open."""
        path.touch(mode=0o600, exist_ok=True)
        # One thread at a time uses it: the loop's while opening, the writer's afterwards.
        db = sqlite3.connect(path, timeout=0.5, isolation_level=None, check_same_thread=False)
        try:
            _prepare(db)
        except (sqlite3.DatabaseError, NotPossibleHere) as problem:
            db.close()
            locked = "locked" in str(problem)
            why = "another server has it open: stop that one, or choose another data folder" if locked else problem
            raise NotPossibleHere(f"cannot use {path}: {why}") from problem
        return cls(db)

    def version(self) -> int:
        """The version of the last committed change."""
        return int(self._db.execute("SELECT version FROM counter").fetchone()[0])

    def records(self) -> Iterator[Record]:
        """Every object kept."""
        for resource, body in self._db.execute("SELECT resource, body FROM objects"):
            yield record(resource, decode(body))

    def commit(self, events: Iterable[Event]) -> None:
        """Write the last state of each object changed, all or none, and synchronise the file."""
        last: dict[Key, Event] = {event.after.key: event for event in events}
        version = max(event.version for event in last.values())
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany(_DROP, [key for key, event in last.items() if event.gone])
            self._db.executemany(_PUT, [(*key, event.after.body) for key, event in last.items() if not event.gone])
            self._db.execute(_COUNT, (version,))
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Fold the log into the file and give it back."""
        self._db.close()
