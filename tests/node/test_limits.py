"""Containers stay within their limits: of memory or they are killed, of CPUs because they see no others."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pliant.embedded.kubelet.runtime.resources import CpuAllocator
from tests.node.running import Pod, Running, running, state

GROW = """
import sys, time
held = []
for _ in range(int(sys.argv[1])):
    held.append(bytearray(b"x" * (1 << 20)))
    time.sleep(0.005)
print("grown")
"""
SHARE = """
import os, time
held = bytearray(b"x" * (40 << 20))
children = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        time.sleep(2)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
"""
READ = """
import mmap, os, sys, time
with open(sys.argv[1], "wb") as file:
    for _ in range(120): file.write(b"x" * (1 << 20))
with open(sys.argv[1], "rb") as file:
    shown = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    sum(shown[place] for place in range(0, len(shown), 4096))
    time.sleep(1)
"""


@pytest.fixture
async def cluster(tmp_path: Path, network: str) -> AsyncIterator[Running]:
    async with running(tmp_path) as up:
        yield up


async def test_a_container_that_outgrows_its_limit_is_killed(cluster: Running) -> None:
    pod = await _ended(cluster, "300", script=GROW)
    ended = state(pod)["terminated"]
    assert (pod["status"]["phase"], ended["reason"], ended["exitCode"]) == ("Failed", "OOMKilled", 137)
    assert await cluster.output("a") == ""


async def test_a_container_within_its_limit_is_left_in_peace(cluster: Running) -> None:
    pod = await _ended(cluster, "30", script=GROW)
    assert (pod["status"]["phase"], await cluster.output("a")) == ("Succeeded", "grown\n")


async def test_what_its_children_hold_counts(cluster: Running) -> None:
    command = ["sh", "-c", 'python3 -c "$0" 300 & wait; sleep 30', GROW]
    assert state(await _ended(cluster, command=command))["terminated"]["reason"] == "OOMKilled"


async def test_memory_that_processes_share_counts_once(cluster: Running) -> None:
    assert (await _ended(cluster, script=SHARE))["status"]["phase"] == "Succeeded"


async def test_files_that_are_looked_at_do_not_count(cluster: Running, tmp_path: Path) -> None:
    pod = await _ended(cluster, str(tmp_path / "data"), script=READ)
    assert pod["status"]["phase"] == "Succeeded"


async def test_a_container_that_is_killed_for_its_memory_may_try_again(cluster: Running) -> None:
    await _pod(cluster, ["python3", "-c", GROW, "300"], restartPolicy="OnFailure")
    pod = await cluster.until("a", lambda pod: "terminated" in _last(pod))
    assert _last(pod)["terminated"]["reason"] == "OOMKilled"


async def test_a_container_runs_on_as_many_cpus_as_its_limit_needs(cluster: Running) -> None:
    ask = ["python3", "-c", "import os; print(len(os.sched_getaffinity(0)))"]
    for name, limits in (("a", {"cpu": "500m"}), ("b", {"cpu": "1000"}), ("c", {})):
        resources = {"limits": limits, "requests": {"cpu": "100m"}}
        await cluster.pod(name, [{"name": "main", "command": ask, "resources": resources}])
        await cluster.finished(name)
    seen = [int(await cluster.output(name)) for name in ("a", "b", "c")]
    everything = len(os.sched_getaffinity(0))
    assert seen == [1, everything, everything]


def test_cpus_are_shared_out_evenly_and_given_back() -> None:
    desk = CpuAllocator([0, 1, 2, 3])
    assert desk.allocate("a", Fraction(2)) == [0, 1]
    assert desk.allocate("b", Fraction(1, 2)) == [2]
    assert desk.allocate("c", Fraction(3, 2)) == [2, 3]
    assert desk.allocate("d", Fraction(4)) == [], "all of them"
    assert desk.allocate("e", Fraction(0)) == [], "no limit"
    desk.release("a")
    desk.release("a")
    desk.release("e")
    assert desk.allocate("f", Fraction(2)) == [0, 1]


async def _ended(cluster: Running, *words: str, script: str = "", command: list[str] | None = None) -> Pod:
    await _pod(cluster, command or ["python3", "-c", script, *words])
    return await cluster.finished("a")


async def _pod(cluster: Running, command: list[str], **spec: Any) -> None:
    main = {"name": "main", "command": command, "resources": {"limits": {"memory": "100Mi"}}}
    await cluster.pod("a", [main], **spec)


def _last(pod: Pod) -> dict[str, Any]:
    told = pod["status"].get("containerStatuses")
    found: dict[str, Any] = told[0]["lastState"] if told else {}
    return found
