"""Checks the database file of a cluster before it is opened for writing; a damaged file is not changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from pliant.errors import DamagedDatabase, UnsupportedEnvironment

SCHEMA_VERSION = 1
_TABLES = {"objects", "counter"}
_FILE_HEADER = b"SQLite format 3\0"
_DAMAGE_CODES = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_REASONS = {
    "SQLITE_BUSY": "another cluster has it open: stop it or choose another data directory",
    "SQLITE_CANTOPEN": "it cannot be opened: make the file and its directory readable and writable for your user",
    "SQLITE_READONLY": "it cannot be written: make the file and its directory writable for your user",
    "SQLITE_PERM": "it cannot be opened: make the file and its directory readable and writable for your user",
    "SQLITE_FULL": "the disk is full: free disk space",
    "SQLITE_IOERR": "the disk reports an error: free disk space, or check the disk",
}
_WAYS_OUT = (
    "nothing was changed. `pliant up --repair` keeps this file under another name and recovers the objects that can be "
    "read; or restore a copy of the file; or delete the cluster and its data with `pliant down --purge`"
)


def check_database(path: Path) -> bool:
    """Return whether the file holds a database; False if the cluster is new. Raise an error that names the way out."""
    try:
        size = path.stat().st_size if path.exists() else 0
        header = _read_header(path) if size else b""
    except OSError as error:
        raise UnsupportedEnvironment(f"cannot use {path}: {_REASONS['SQLITE_CANTOPEN']} ({error.strerror})") from None
    if not size:
        _check_new(path)
        return False
    if header != _FILE_HEADER:
        raise damaged(path, "it is not a database, or its beginning is damaged")
    try:
        # Read-only, so that not even its write-ahead log is merged into a damaged file.
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=0.5)) as db:
            _check_content(path, db)
    except sqlite3.DatabaseError as error:
        raise explain_database_error(path, error) from error
    return True


def mark_created(path: Path) -> None:
    """Note beside the file that it exists, so that an empty one is recognized as damaged."""
    marker_path(path).touch(mode=0o600)


def marker_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.created")


def wal_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def damaged(path: Path, problem: str) -> DamagedDatabase:
    return DamagedDatabase(f"the database {path} is damaged: {problem}; {_WAYS_OUT}")


def explain_database_error(path: Path, error: sqlite3.DatabaseError) -> UnsupportedEnvironment:
    code = getattr(error, "sqlite_errorname", "")
    if not code or code.startswith(_DAMAGE_CODES):  # without a code, Python cannot decode a value
        return damaged(path, str(error))
    reason = next((reason for prefix, reason in _REASONS.items() if code.startswith(prefix)), str(error))
    return UnsupportedEnvironment(f"cannot use {path}: {reason}")


def _read_header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_FILE_HEADER))


def _check_new(path: Path) -> None:
    state = "empty" if path.exists() else "missing"
    if marker_path(path).exists():
        raise damaged(path, f"it is {state}, but {marker_path(path).name} shows that the cluster has been used")
    if wal_path(path).exists() and wal_path(path).stat().st_size:
        raise damaged(path, f"it is {state}, but its write-ahead log {wal_path(path).name} exists")


def _check_content(path: Path, db: sqlite3.Connection) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, SCHEMA_VERSION):
        raise UnsupportedEnvironment(
            f"cannot use {path}: another version of pliant wrote it (schema version {version}, expected "
            f"{SCHEMA_VERSION}); use that version, or start another cluster with --name or --data"
        )
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if tables - _TABLES:
        names = ", ".join(sorted(tables - _TABLES))
        raise UnsupportedEnvironment(
            f"cannot use {path}: it is the database of another program, with the tables {names}; choose another --data"
        )
    if version == SCHEMA_VERSION and tables != _TABLES:
        raise damaged(path, f"it lacks the tables {', '.join(sorted(_TABLES - tables))}")
    # Cheap: 25 ms for 10,000 pods.
    problems = [text for (text,) in db.execute("PRAGMA quick_check(1)") if text != "ok"]
    if problems:
        raise damaged(path, problems[0].replace("\n", " "))
    if tables == _TABLES and db.execute("SELECT version FROM counter").fetchone() is None:
        raise damaged(path, "it has no resource version")
