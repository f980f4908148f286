"""Logs know when their lines were written, and stay within bounds while they are followed."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pliant.embedded.agent.container.log_writer import MAX_LOG_FILES, create_log_writer
from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.embedded.kubelet.logs.pod_logs import FileWatcher, PodLogStore
from pliant.errors import BadRequest
from pliant.runtime.clock import SystemClock
from tests.node.conftest import PYTHON, Node
from tests.node.running import Running, running

POD: dict[str, Any] = {"metadata": {"name": "p", "uid": "u"}}
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ")


@pytest.fixture
async def cluster(tmp_path: Path, network: str) -> AsyncIterator[Running]:
    async with running(tmp_path) as up:
        yield up


@pytest.fixture
async def logs(tmp_path: Path) -> AsyncIterator[PodLogStore]:
    files = FileWatcher()
    yield PodLogStore(tmp_path, files)
    files.close()


async def test_lines_have_times_and_can_be_asked_for_by_them(cluster: Running) -> None:
    await cluster.sh("a", "echo early; sleep 1.5; echo late; printf unfinished")
    await cluster.finished("a")
    stamped = (await cluster.output("a", timestamps=True)).splitlines()
    assert [STAMP.sub("", line, count=1) for line in stamped] == ["early", "late", "unfinished"]
    early, late = (datetime.fromisoformat(line.split()[0]) for line in stamped[:2])
    assert late - early >= timedelta(seconds=1.4)
    assert abs(SystemClock().now() - late) < timedelta(seconds=10)
    between = (early + timedelta(seconds=1)).isoformat().replace("+00:00", "Z")
    path = f"/api/v1/namespaces/default/pods/a/log?sinceTime={between}"
    assert await cluster.client.get_raw(path, accept="*/*") == b"late\nunfinished"
    assert await cluster.output("a", since_seconds=3600) == "early\nlate\nunfinished"
    assert await cluster.output("a", since_seconds=3600, tail_lines=2) == "late\nunfinished"
    await asyncio.sleep(1.1)
    assert await cluster.output("a", since_seconds=1) == ""


async def test_a_senseless_time_is_named(cluster: Running) -> None:
    await cluster.ran("a", "echo hello")
    path = "/api/v1/namespaces/default/pods/a/log?sinceTime="
    with pytest.raises(BadRequest, match='sinceTime: Invalid value: "yesterday": must be an RFC 3339 time'):
        await cluster.client.get_raw(path + "yesterday", accept="*/*")
    with pytest.raises(BadRequest, match="at most one of `sinceTime` or `sinceSeconds`"):
        await cluster.client.get_raw(path + "2026-01-01T00:00:00Z&sinceSeconds=1", accept="*/*")


async def test_a_log_that_grows_too_large_loses_its_beginning(agent: Node) -> None:
    command = agent.command(PYTHON, "-c", "for n in range(100_000): print(f'line {n:06d}')")
    command["max_log_bytes"] = 100_000
    await (await agent.agent.start_container("pod", "a", command))
    files = sorted(agent.data.glob("1.log*"))
    assert len([each for each in files if not each.name.endswith(".times")]) == MAX_LOG_FILES
    assert sum(each.stat().st_size for each in files) < (MAX_LOG_FILES + 1) * 100_000
    last = max((each for each in files if not each.name.endswith(".times")), key=lambda each: int(each.suffix[1:]))
    assert last.read_text().endswith("line 099999\n")


async def test_a_reader_follows_from_file_to_file(logs: PodLogStore, tmp_path: Path) -> None:
    path = logs.create_run_log("u", "c", 0)
    output = _Written(path)
    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(_read(logs, follow=True))
        stamper = tasks.create_task(_read(logs, follow=True, timestamps=True))
        for number in range(50):
            output.write(f"line {number}\n" * 3)
            await asyncio.sleep(0.005)
        logs.mark_log_complete(path)
    expected = "".join(f"line {number}\n" * 3 for number in range(50))
    assert reader.result() == expected
    lines = stamper.result().splitlines(keepends=True)
    assert "".join(STAMP.sub("", line, count=1) for line in lines) == expected
    kept = await _read(logs)
    assert kept == expected[-len(kept) :]
    assert len(kept) < len(expected)
    assert await _read(logs, tail_lines=20) == "".join(expected.splitlines(keepends=True)[-20:])


async def test_a_reader_who_is_too_slow_goes_on_with_what_is_left(logs: PodLogStore) -> None:
    path = logs.create_run_log("u", "c", 0)
    output = _Written(path)
    output.write("first\n")
    chunks = logs.read_container_log(POD, "c", LogOptions(follow=True))
    assert await anext(chunks) == b"first\n"
    for number in range(200):
        output.write(f"line {number}\n")
    logs.mark_log_complete(path)
    rest = b"".join([chunk async for chunk in chunks]).decode()
    assert rest.endswith("line 198\nline 199\n")


async def test_the_previous_run_is_the_one_that_the_pod_tells_of(logs: PodLogStore) -> None:
    for run in range(8):
        path = logs.create_run_log("u", "c", run)
        path.write_text(f"run {run}")
        logs.mark_log_complete(path)
    ended = {"lastState": {"terminated": {"containerID": "pliant://u/c/7"}}}
    pod = {**POD, "status": {"containerStatuses": [{"name": "c", **ended}]}}
    pieces = [chunk async for chunk in logs.read_container_log(pod, "c", LogOptions(previous=True))]
    assert pieces == [b"run 7"], "it waits to be started again"
    assert await _read(logs, previous=True) == "run 6"
    assert len(list(path.parent.glob("*.log"))) == 5, "older ones are gone"


async def test_what_a_killed_container_wrote_last_is_kept(cluster: Running) -> None:
    await cluster.sh("a", "trap '' TERM; echo last words; sleep 60; sleep 60", activeDeadlineSeconds=1)
    pod = await cluster.finished("a")
    assert pod["status"]["reason"] == "DeadlineExceeded"
    assert await cluster.output("a") == "last words\n"


async def test_a_container_that_writes_much_is_heard_to_the_end(cluster: Running) -> None:
    count = 300_000
    assert await cluster.ran("a", f"seq {count}") == "\n".join(map(str, range(1, count + 1)))


class _Written:
    """Writes a log as the agent does, in small files."""

    def __init__(self, path: Path) -> None:
        self._output = create_log_writer(str(path), 100)
        next(self._output)

    def write(self, text: str) -> None:
        self._output.send(text.encode())
        time.sleep(0.0001)


async def _read(logs: PodLogStore, **options: Any) -> str:
    pieces = [chunk async for chunk in logs.read_container_log(POD, "c", LogOptions(**options))]
    return b"".join(pieces).decode()
