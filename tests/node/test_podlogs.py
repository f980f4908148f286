"""Logs are read from any line on, followed without a clock, and told apart by run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.embedded.kubelet.logs.pod_logs import FileWatcher, PodLogStore
from pliant.errors import BadRequest

POD: dict[str, Any] = {"metadata": {"name": "p", "uid": "u"}}


@pytest.fixture
async def logs(tmp_path: Path) -> AsyncIterator[PodLogStore]:
    files = FileWatcher()
    yield PodLogStore(tmp_path, files)
    files.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["", "a", "bb", "x" * 70_000]), max_size=6), st.booleans(), st.integers(0, 8))
def test_the_last_lines_are_those_that_splitting_gives(
    tmp_path: Path, lines: list[str], is_ended: bool, count: int
) -> None:
    text = "\n".join(lines) + ("\n" if is_ended and lines else "")
    logs = PodLogStore(tmp_path, FileWatcher())
    path = logs.create_run_log("u", "c", 0)
    path.write_text(text)
    logs.mark_log_complete(path)
    expected = "".join(text.splitlines(keepends=True)[-count:]) if count else ""
    assert asyncio.run(_read(logs, tail_lines=count)) == expected


async def test_each_run_has_its_own_log(logs: PodLogStore) -> None:
    for run in range(11):
        logs.create_run_log("u", "c", run).write_text(f"run {run}")
    assert await _read(logs) == "run 10"
    assert await _read(logs, previous=True) == "run 9"
    assert await _read(logs, limit_bytes=4) == "run "


async def test_a_container_without_a_log_is_named(logs: PodLogStore) -> None:
    with pytest.raises(BadRequest, match='container "c" in pod "p" not found'):
        await _read(logs)


async def test_several_readers_follow_one_log_to_its_end(logs: PodLogStore) -> None:
    path = logs.create_run_log("u", "c", 0)
    async with asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(_read(logs, follow=True)) for _ in range(3)]
        for line in ("one\n", "two\n", "three\n"):
            with path.open("a") as file:
                file.write(line)
            await asyncio.sleep(0)
        logs.mark_log_complete(path)
    assert [reader.result() for reader in readers] == ["one\ntwo\nthree\n"] * 3


async def test_following_a_run_that_is_over_ends_at_once(logs: PodLogStore) -> None:
    path = logs.create_run_log("u", "c", 0)
    path.write_text("all\n")
    logs.mark_log_complete(path)
    assert await _read(logs, follow=True) == "all\n"


async def _read(logs: PodLogStore, **options: Any) -> str:
    pieces = [chunk async for chunk in logs.read_container_log(POD, "c", LogOptions(**options))]
    return b"".join(pieces).decode()
