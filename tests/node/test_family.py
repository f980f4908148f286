"""The processes below another one are found, whatever they do to leave it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.embedded.agent.isolation import process_tree

TREE = "sleep 60 & (sleep 60 & exec sleep 60) & echo up; wait"


@pytest.fixture
def tree() -> Iterator[subprocess.Popen[bytes]]:
    """A shell with three processes below it, one of them a grandchild."""
    with subprocess.Popen(["sh", "-c", TREE], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == b"up\n"
        _until_count(shell.pid, 3)
        yield shell
        process_tree.kill_descendants(shell.pid)
        shell.kill()


def test_descendants_are_found_and_other_processes_are_not(tree: subprocess.Popen[bytes]) -> None:
    assert sorted(process_tree.list_descendants_fast(tree.pid)) == sorted(process_tree.list_descendants(tree.pid))
    assert os.getpid() not in process_tree.list_descendants(tree.pid)
    assert process_tree.list_descendants(2**22 + 1) == []
    assert process_tree.list_descendants_fast(2**22 + 1) == []


def test_a_signal_reaches_all_of_them(tree: subprocess.Popen[bytes]) -> None:
    found = process_tree.list_descendants(tree.pid)
    process_tree.signal_descendants(tree.pid, signal.SIGSTOP)
    deadline = time.monotonic() + 5
    while {_state(each) for each in found} != {"T"}:  # the kernel stops them when it comes to it
        assert time.monotonic() < deadline
        time.sleep(0.01)  # nothing tells
    process_tree.kill_descendants(tree.pid)
    assert process_tree.list_descendants(tree.pid) == []


def test_only_programs_of_agents_that_are_gone_are_left_over(tree: subprocess.Popen[bytes]) -> None:
    mark = process_tree.own_agent_id()
    pids, number, beginning = mark.split(":")
    gone = f"{pids}:{number}:{int(beginning) + 1}"
    elsewhere = f"1:{number}:{int(beginning) + 1}"
    started = {
        each: subprocess.Popen(["sleep", "60"], env={process_tree.AGENT_ID_VARIABLE: each})
        for each in (mark, gone, elsewhere, "nonsense")
    }
    try:
        process_tree.kill_dead_agents_processes()
        assert started.pop(gone).wait(5) == -signal.SIGKILL
        assert [each.poll() for each in started.values()] == [None, None, None]
    finally:
        for each in started.values():
            each.kill()
            each.wait()


def _until_count(process: int, count: int) -> None:
    for _ in range(500):
        if len(process_tree.list_descendants(process)) == count:
            return
        time.sleep(0.01)
    pytest.fail(f"never {count} processes")


def _state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
