"""Throw-away folders leave nothing behind, and disturb nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pliant.cli.local.run_dir import create_run_dir
from pliant.errors import UnsupportedEnvironment


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "pliant"


def test_a_folder_is_private_and_gone_afterwards() -> None:
    with create_run_dir() as folder:
        (folder / "file").write_text("x")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_a_kept_folder_stays_through_later_runs() -> None:
    with create_run_dir(keep=True) as kept:
        pass
    with create_run_dir():
        assert kept.exists()


def test_a_folder_that_cannot_be_read_keeps_nobody_from_running(runtime_folder: Path) -> None:
    with create_run_dir():
        pass
    strange = runtime_folder / "run-strange"
    strange.mkdir()
    (strange / "lock").symlink_to("/nowhere")  # cannot be opened, not even by root
    with create_run_dir() as folder:
        assert folder.exists()


def test_what_a_killed_run_left_is_swept_away_and_what_a_living_one_uses_is_not() -> None:
    dying = subprocess.run([sys.executable, "-c", _DIE], stdout=subprocess.PIPE, text=True, check=False)
    left = Path(dying.stdout.strip())
    assert dying.returncode == -9
    assert left.exists()
    with create_run_dir() as living, create_run_dir():
        assert not left.exists()
        assert living.exists()


def test_a_root_that_others_may_write_is_refused(runtime_folder: Path) -> None:
    runtime_folder.mkdir()
    runtime_folder.chmod(0o777)
    with pytest.raises(UnsupportedEnvironment, match="is not private to this user"), create_run_dir():
        pass


def test_without_a_runtime_folder_the_temporary_one_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with create_run_dir() as folder:
        assert folder.parent == tmp_path / f"pliant-{os.getuid()}"


_DIE = """
import os
from pliant.cli.local.run_dir import create_run_dir
with create_run_dir() as folder:
    print(folder, flush=True)
    os.kill(os.getpid(), 9)
"""
