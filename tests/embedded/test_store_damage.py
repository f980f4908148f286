"""A damaged database: what is wrong is named, nothing is overwritten, and what can be read is recovered."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pliant.embedded.storage.database_check import marker_path
from pliant.embedded.storage.repair import repair_if_damaged
from pliant.embedded.storage.sqlite_backend import SqliteBackend
from pliant.embedded.storage.store import Store
from pliant.errors import DamagedDatabase, UnsupportedEnvironment
from tests.embedded.test_store import PODS, pod, put, remove

COUNT = 400
PAGE = 4096
NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
async def database(tmp_path: Path) -> Path:
    """A database with many pods, as a stopped cluster leaves it."""
    path = tmp_path / "cluster.db"
    async with Store.open(path) as store:
        pods = ({**pod(f"p{number:03}"), "spec": {"text": "x" * 500}} for number in range(COUNT))
        await asyncio.gather(*(put(store, each) for each in pods))
    return path


def overwrite(path: Path, offset: int, length: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset : offset + length] = random.Random(7).randbytes(length)
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def run_sql(path: Path, sql: str) -> None:
    db = sqlite3.connect(path)
    db.executescript(sql)
    db.close()


def damage_a_body(path: Path) -> None:
    run_sql(path, "UPDATE objects SET body = x'7b7b' WHERE name = 'p007'")


def leave_only_the_log(path: Path) -> None:
    marker_path(path).unlink()
    path.rename(path.with_name("cluster.db-wal"))


DAMAGES: dict[str, tuple[Callable[[Path], object], int]] = {
    "header": (lambda path: overwrite(path, 0, 100), COUNT),
    "first page": (lambda path: overwrite(path, 0, PAGE), COUNT),
    "middle page": (lambda path: overwrite(path, path.stat().st_size // 2 // PAGE * PAGE, PAGE), COUNT * 9 // 10),
    "truncated": (truncate, COUNT // 4),
    "empty": (lambda path: path.write_bytes(b""), 0),
    "missing": (lambda path: path.unlink(), 0),
    "only the log": (leave_only_the_log, 0),
    "not a database": (lambda path: path.write_text("my notes\n" * 1000), 0),
    "no table": (lambda path: run_sql(path, "DROP TABLE objects"), 0),
    "no version": (lambda path: run_sql(path, "DELETE FROM counter"), COUNT),
    "an object": (damage_a_body, COUNT - 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_database_is_named_with_the_way_out_and_not_changed(database: Path, damage: str) -> None:
    DAMAGES[damage][0](database)
    before = database.read_bytes() if database.exists() else None
    with pytest.raises(DamagedDatabase, match="is damaged") as raised:
        async with Store.open(database):
            pass
    assert str(database) in str(raised.value)
    assert "pliant up --repair" in str(raised.value)
    assert (database.read_bytes() if database.exists() else None) == before


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_repair_recovers_what_can_be_read_and_keeps_the_rest(database: Path, damage: str) -> None:
    damage_file, least = DAMAGES[damage]
    damage_file(database)
    before = database.read_bytes() if database.exists() else None
    report = repair_if_damaged(database, NOW)
    assert report is not None
    if before is not None:
        assert report.damaged_path.read_bytes() == before
    assert least <= report.recovered.total() <= COUNT
    async with Store.open(database) as store:
        names = {each.key.name for each in store.committed.list_objects(PODS)}
        assert len(names) == report.recovered[PODS]
        assert store.committed.version >= max((each.version for each in store.committed.list_objects(PODS)), default=0)
        await put(store, pod("new"))
    assert str(report.recovered.total()) in str(report)
    assert repair_if_damaged(database, NOW) is None
    assert sorted(path.name for path in database.parent.iterdir() if "repair" in path.name) == []


async def test_a_repair_names_the_objects_that_it_loses(database: Path) -> None:
    damage_a_body(database)
    report = repair_if_damaged(database, NOW)
    assert "lost 1 objects (1 pods): /pods/default/p007" in str(report)
    assert f"recovered {COUNT - 1} objects ({COUNT - 1} pods)" in str(report)


@pytest.mark.parametrize("damage", ["middle page", "truncated"])
async def test_a_repair_does_not_recover_deleted_objects(database: Path, damage: str) -> None:
    async with Store.open(database) as store:
        for number in range(0, COUNT, 2):
            await remove(store, f"p{number:03}")
    DAMAGES[damage][0](database)
    report = repair_if_damaged(database, NOW)
    assert report is not None
    assert report.recovered.total() > 0
    async with Store.open(database) as store:
        numbers = {int(each.key.name[1:]) for each in store.committed.list_objects(PODS)}
        assert {number % 2 for number in numbers} == {1}


async def test_a_repair_reads_the_write_ahead_log(tmp_path: Path) -> None:
    live, crashed = tmp_path / "live", tmp_path / "crashed"
    live.mkdir()
    async with Store.open(live / "cluster.db") as store:
        for number in range(20):
            await put(store, pod(f"p{number}"))
        shutil.copytree(live, crashed)
    assert (crashed / "cluster.db-wal").stat().st_size > 0
    run_sql(shutil.copytree(crashed, tmp_path / "again") / "cluster.db", "DELETE FROM counter")
    report = repair_if_damaged(tmp_path / "again" / "cluster.db", NOW)
    assert report is not None
    assert report.recovered[PODS] == 20


async def test_a_new_cluster_is_not_damaged(tmp_path: Path) -> None:
    for name in ("missing.db", "empty.db"):
        path = tmp_path / name
        if name == "empty.db":
            path.touch()
        assert repair_if_damaged(path, NOW) is None
        async with Store.open(path) as store:
            await put(store, pod("a"))
        assert repair_if_damaged(path, NOW) is None


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: run_sql(path, "PRAGMA user_version = 99"), "schema version 99, expected 1"),
        (lambda path: run_sql(path, "CREATE TABLE photos (x)"), "database of another program, with the tables photos"),
        (lambda path: path.chmod(0), "readable and writable for your user"),
        (lambda path: (path.chmod(0o400), path.parent.chmod(0o500)), "writable for your user"),
    ],
    ids=["another version", "another program", "unreadable", "read-only"],
)
async def test_a_database_that_cannot_be_used_is_no_damage(
    database: Path, prepare: Callable[[Path], object], message: str
) -> None:
    prepare(database)
    try:
        with pytest.raises(UnsupportedEnvironment, match=message) as raised:
            SqliteBackend.open(database)
        assert not isinstance(raised.value, DamagedDatabase)
        assert str(database) in str(raised.value)
    finally:
        database.parent.chmod(0o700)


async def test_a_full_disk_is_no_damage(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(db: sqlite3.Connection) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        raise error

    monkeypatch.setattr("pliant.embedded.storage.sqlite_backend._initialize_database", fail)
    with pytest.raises(UnsupportedEnvironment, match="free disk space") as raised:
        SqliteBackend.open(database)
    assert not isinstance(raised.value, DamagedDatabase)
