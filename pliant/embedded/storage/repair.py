"""Recovers the objects of a damaged database into a new one; the damaged file is kept under another name."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec

from pliant.embedded.storage import database_check
from pliant.embedded.storage.database_check import check_database, wal_path
from pliant.embedded.storage.page_reader import PAGE_BYTES, read_page_rows
from pliant.embedded.storage.sqlite_backend import SqliteBackend
from pliant.embedded.storage.stored_objects import (
    ObjectChange,
    ObjectKey,
    StoredObject,
    decode_object,
    to_stored_object,
)
from pliant.errors import DamagedDatabase

_DATABASE_SIZE_FIELD = slice(28, 32)  # of the header: the number of pages
_VERSION_GAP = 10_000  # added to the version if the last one is unknown, so that no version is used twice
_ROWS_SQL = "SELECT resource, namespace, name, body FROM objects"


@dataclass(slots=True)
class RepairReport:
    damaged_path: Path
    recovered: Counter[str] = field(default_factory=Counter)
    """The number of recovered objects by resource."""
    lost: list[ObjectKey] = field(default_factory=list)
    """Objects whose name could be read, but not their content."""
    has_unreadable_pages: bool = False

    def __str__(self) -> str:
        lines = [f"the database was damaged; it is kept as {self.damaged_path}"]
        lines.append(f"recovered {_format_counts(self.recovered)}")
        if self.lost:
            names = ", ".join("/".join(filter(None, key)) for key in self.lost[:10])
            lines.append(f"lost {_format_counts(Counter(key.resource for key in self.lost))}: {names}")
        if self.has_unreadable_pages:
            lines.append("parts of the file are unreadable: more objects may be lost, and their names are unknown")
        return "\n".join(lines)


def repair_if_damaged(path: Path, now: datetime) -> RepairReport | None:
    """Repair a database that is damaged; return None if it is not, or if there is none."""
    try:
        if check_database(path):
            with closing(SqliteBackend.open(path)) as backend:
                for _ in backend.load_objects():
                    pass
    except DamagedDatabase:
        return _repair(path, now)
    return None


def _repair(path: Path, now: datetime) -> RepairReport:
    damaged_path = path.with_name(f"{path.name}.damaged-{now:%Y%m%dT%H%M%S.%fZ}")
    report = RepairReport(damaged_path)
    with tempfile.TemporaryDirectory(prefix=f"{path.name}.repair-", dir=path.parent) as scratch:
        repaired = Path(scratch) / "repaired.db"
        objects, version = _Recovery(path, Path(scratch), report).recover()
        _write_database(repaired, objects, version)
        # The old file exists under one of its names at every moment.
        with suppress(FileNotFoundError):
            os.link(path, damaged_path)
        with suppress(FileNotFoundError):
            wal_path(path).rename(wal_path(damaged_path))
        repaired.replace(path)
    database_check.mark_created(path)
    return report


def _write_database(path: Path, objects: list[StoredObject], version: int) -> None:
    with closing(SqliteBackend.open(path)) as backend:
        if objects:
            backend.commit(ObjectChange(None, each) for each in objects)
        backend.set_version(version)


class _Recovery:
    """Reads a copy of a damaged database as far as possible."""

    def __init__(self, path: Path, scratch: Path, report: RepairReport) -> None:
        self._copy = scratch / "damaged.db"
        self._template = scratch / "template.db"
        self._report = report
        self._found: dict[ObjectKey, StoredObject] = {}
        self._lost: dict[ObjectKey, None] = {}
        self._version = 0
        self._has_schema = False
        """Whether SQLite can open the file."""
        for source, target in ((path, self._copy), (wal_path(path), wal_path(self._copy))):
            with suppress(FileNotFoundError):
                shutil.copyfile(source, target)

    def recover(self) -> tuple[list[StoredObject], int]:
        """Return the objects that can be read, and the version to continue with."""
        is_complete = self._read_all()
        for repair_header in (self._correct_size, self._replace_first_page):
            if not self._has_schema:
                repair_header()
                is_complete = self._read_all()
        if not is_complete:
            self._read_pages()
        lost = [key for key in self._lost if key not in self._found]
        self._report.lost = lost
        self._report.recovered = Counter(key.resource for key in self._found)
        last_version = max((each.version for each in self._found.values()), default=0)
        version = self._version if self._version >= last_version else last_version + _VERSION_GAP
        return list(self._found.values()), version

    def _read_all(self) -> bool:
        """Read the objects and the version; return whether all pages could be read."""
        try:
            with closing(sqlite3.connect(self._copy, isolation_level=None)) as db:
                db.execute("SELECT count(*) FROM objects WHERE resource = ''").fetchone()
                self._has_schema = True
                db.text_factory = lambda text: text.decode(errors="replace")
                with suppress(sqlite3.DatabaseError, TypeError, ValueError):
                    self._version = int(db.execute("SELECT version FROM counter").fetchone()[0])
                return self._read_objects(db)
        except sqlite3.DatabaseError:
            return False

    def _read_objects(self, db: sqlite3.Connection) -> bool:
        """Read the rows up to the first damaged page; return whether there is none."""
        try:
            for row in db.execute(_ROWS_SQL):
                self._add_row(*row)
        except sqlite3.DatabaseError:
            return False
        return True

    def _read_pages(self) -> None:
        """Read the rows of undamaged pages that the damaged ones no longer lead to."""
        self._report.has_unreadable_pages = True
        if self._copy.exists():
            for row in read_page_rows(self._copy.read_bytes()):
                self._add_row(*row)

    def _add_row(self, resource: str, namespace: str, name: str, body: bytes) -> None:
        key = ObjectKey(resource, namespace, name)
        try:
            found = to_stored_object(resource, decode_object(body))
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError):
            self._lost[key] = None
            return
        known = self._found.get(key)
        if found.key != key:
            self._lost[key] = None
        elif known is None or known.version < found.version:
            self._found[key] = found

    def _correct_size(self) -> None:
        """Let the header state the size of the file, which was truncated."""
        self._write_first_page(None)

    def _replace_first_page(self) -> None:
        """Replace the first page, with the header and the schema, by that of a new database: it is always the same."""
        SqliteBackend.open(self._template).close()
        self._write_first_page(self._template.read_bytes()[:PAGE_BYTES])

    def _write_first_page(self, page: bytes | None) -> None:
        size = self._copy.stat().st_size if self._copy.exists() else 0
        if size < PAGE_BYTES:
            return
        with self._copy.open("r+b") as file:
            content = bytearray(page or file.read(PAGE_BYTES))
            content[_DATABASE_SIZE_FIELD] = (size // PAGE_BYTES).to_bytes(4, "big")
            file.seek(0)
            file.write(content)


def _format_counts(counts: Counter[str]) -> str:
    kinds = ", ".join(f"{count} {resource.lstrip('/')}" for resource, count in sorted(counts.items()))
    return f"{counts.total()} objects" + (f" ({kinds})" if kinds else "")
