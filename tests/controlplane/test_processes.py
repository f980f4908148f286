from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.processes import PREFIX, supervised
from tests.scenarios.host import expect_gone

OWNER = """
import signal
from tests.controlplane.processes import supervised
with supervised() as processes:
    print(processes.folder, processes.supervisor, processes.start("sleeper", ["sleep", "600"]), flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of other people's control planes are none of our business."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[str]]:
    """A process that owns a sleeper."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def read_owner_output(owner: subprocess.Popen[str]) -> tuple[Path, int, int]:
    assert owner.stdout is not None
    folder, supervisor, sleeper = owner.stdout.readline().split()
    return Path(folder), int(supervisor), int(sleeper)


def test_a_process_can_be_stopped_and_started_again() -> None:
    with supervised() as processes:
        first = processes.start("sleeper", ["sleep", "600"])
        assert not processes.ended("sleeper")
        assert processes.stop("sleeper", signal.SIGTERM) == -signal.SIGTERM
        expect_gone([first])
        processes.start("sleeper", ["sh", "-c", "echo awake"])
        assert processes.stop("sleeper", signal.SIGCONT) == 0
        assert processes.tail("sleeper") == "awake"


def test_nothing_is_left_afterwards() -> None:
    with supervised() as processes:
        sleeper, folder = processes.start("sleeper", ["sleep", "600"]), processes.folder
    expect_gone([sleeper])
    assert not folder.exists()


def test_a_program_that_is_not_there_is_told() -> None:
    with supervised() as processes, pytest.raises(RuntimeError, match="No such file"):
        processes.start("ghost", ["/no/such/program"])


def test_nothing_is_left_when_the_owner_is_killed(owner: subprocess.Popen[str]) -> None:
    folder, supervisor, sleeper = read_owner_output(owner)
    owner.kill()
    expect_gone([supervisor, sleeper])
    assert not folder.exists()


def test_nothing_runs_on_when_owner_and_supervisor_are_killed(owner: subprocess.Popen[str]) -> None:
    folder, supervisor, sleeper = read_owner_output(owner)
    os.kill(owner.pid, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGKILL)
    owner.kill()
    expect_gone([supervisor, sleeper])
    assert folder.name.startswith(PREFIX)
    with supervised():
        assert not folder.exists(), "the next one sweeps"
