"""The processes below another one are found, whatever they do to leave it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.embedded.agent import family, leftovers

TREE = "sleep 60 & (sleep 60 & exec sleep 60) & echo up; wait"


@pytest.fixture
def tree() -> Iterator[subprocess.Popen[bytes]]:
    """A shell with three processes below it, one of them a grandchild."""
    with subprocess.Popen(["sh", "-c", TREE], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == b"up\n"
        _until_count(shell.pid, 3)
        yield shell
        family.kill_below(shell.pid)
        shell.kill()


def test_descendants_are_found_and_other_processes_are_not(tree: subprocess.Popen[bytes]) -> None:
    assert sorted(family.glimpsed(tree.pid)) == sorted(family.below(tree.pid))
    assert os.getpid() not in family.below(tree.pid)
    assert family.below(2**22 + 1) == []
    assert family.glimpsed(2**22 + 1) == []


def test_a_signal_reaches_all_of_them(tree: subprocess.Popen[bytes]) -> None:
    found = family.below(tree.pid)
    family.signal_all(tree.pid, signal.SIGSTOP)
    deadline = time.monotonic() + 5
    while {_state(each) for each in found} != {"T"}:  # the kernel stops them when it comes to it
        assert time.monotonic() < deadline
        time.sleep(0.01)  # nothing tells
    family.kill_below(tree.pid)
    assert family.below(tree.pid) == []


def test_only_programs_of_agents_that_are_gone_are_left_over(tree: subprocess.Popen[bytes]) -> None:
    mark = leftovers.own_mark()
    pids, number, beginning = mark.split(":")
    gone = f"{pids}:{number}:{int(beginning) + 1}"
    elsewhere = f"1:{number}:{int(beginning) + 1}"
    started = {
        each: subprocess.Popen(["sleep", "60"], env={leftovers.VARIABLE: each})
        for each in (mark, gone, elsewhere, "nonsense")
    }
    try:
        leftovers.sweep()
        assert started.pop(gone).wait(5) == -signal.SIGKILL
        assert [each.poll() for each in started.values()] == [None, None, None]
    finally:
        for each in started.values():
            each.kill()
            each.wait()


def _until_count(process: int, count: int) -> None:
    for _ in range(500):
        if len(family.below(process)) == count:
            return
        time.sleep(0.01)
    pytest.fail(f"never {count} processes")


def _state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
