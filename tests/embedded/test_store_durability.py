"""The store on disk: what was answered is found again."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from pliant.embedded.storage.sqlite_backend import SqliteBackend
from pliant.embedded.storage.store import Store
from pliant.embedded.storage.stored_objects import ObjectKey
from pliant.errors import Gone, UnsupportedEnvironment
from tests.embedded.test_store import PODS, pod, put, remove


async def test_what_was_acknowledged_is_there_after_a_crash(tmp_path: Path) -> None:
    live, crashed = tmp_path / "live", tmp_path / "crashed"
    live.mkdir()
    async with Store.open(live / "objects.db") as store:
        await asyncio.gather(*(put(store, pod(f"p{number}")) for number in range(50)))
        await remove(store, "p7")
        shutil.copytree(live, crashed)  # as the disk would look after a power cut now
        await put(store, pod("later"))
    async with Store.open(crashed / "objects.db") as store:
        assert store.committed.version == 51
        names = {record.key.name for record in store.committed.list_objects(PODS)}
        assert names == {f"p{number}" for number in range(50)} - {"p7"}
        assert store.committed.find_key_by_uid("u-p3") == ObjectKey(PODS, "default", "p3")
        assert (await put(store, pod("next"))).version == 52


async def test_a_reopened_store_serves_watches_from_its_version_and_refuses_older_ones(tmp_path: Path) -> None:
    async with Store.open(tmp_path / "objects.db") as store:
        await put(store, pod("a"))
        await put(store, pod("b"))
    async with Store.open(tmp_path / "objects.db") as store:
        history = store.committed.history(PODS)
        assert history.changes_since(2) == []
        with pytest.raises(Gone):
            history.changes_since(1)
        await remove(store, "a")
        assert [event.is_deleted for event in history.changes_since(2)] == [True]


def test_the_journal_synchronises_every_commit_and_keeps_others_out(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    journal = SqliteBackend.open(path)
    pragma = {name: journal._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")}
    assert pragma == {"synchronous": 2, "journal_mode": "wal"}
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UnsupportedEnvironment, match="another cluster has it open"):
        SqliteBackend.open(path)
    journal.close()


WRITER = """
import asyncio, sys
from pathlib import Path
from pliant.embedded.storage.store import Store

async def main():
    async with Store.open(Path(sys.argv[1])) as store:
        async def write(start):
            for number in range(start, 10**9, 8):
                obj = {"metadata": {"name": f"p{number}", "uid": f"u{number}"}}
                await store.run_transaction(lambda transaction: transaction.put("/pods", obj))
                print(number, flush=True)
        await asyncio.gather(*(write(start) for start in range(8)))

asyncio.run(main())
"""


async def test_every_write_answered_before_kill_minus_nine_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(path), stdout=asyncio.subprocess.PIPE
    )
    assert writer.stdout is not None
    answered = [int(await asyncio.wait_for(writer.stdout.readline(), 10)) for _ in range(200)]
    writer.kill()
    answered += [int(line) for line in (await writer.stdout.read()).split(b"\n")[:-1]]
    await writer.wait()
    async with Store.open(path) as store:
        kept = {int(record.key.name[1:]) for record in store.committed.list_objects(PODS)}
        assert set(answered) <= kept
        assert store.committed.version >= len(kept)


async def test_a_caller_s_error_leaves_the_store_closed_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"

    async def fail() -> None:
        async with Store.open(path) as store:
            await put(store, pod("a"))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await fail()
    async with Store.open(path) as store:
        assert store.committed.version == 1


def test_a_file_that_is_no_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    path.write_text("not a database, but long enough to look like one" * 100)
    with pytest.raises(UnsupportedEnvironment, match=r"objects.db is damaged: it is not a database"):
        SqliteBackend.open(path)
