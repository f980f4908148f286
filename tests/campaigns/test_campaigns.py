"""Small samples of the campaigns, and that they would find what they look for."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaigns.kills import RUN_ONCE, run_kill_campaign
from tests.campaigns.pauses import PauseReport, run_pause_campaign
from tests.campaigns.writers import Writer
from tests.depth import IS_DEEP, SEED


def test_nothing_is_lost_when_the_cluster_is_killed_under_four_writers() -> None:
    report = run_kill_campaign(10 if IS_DEEP else 1, SEED)
    assert report.is_clean, str(report)
    assert report.writes > 0


@pytest.mark.deep  # tests/kube/test_lease.py and test_fencing.py show it on virtual time
def test_a_paused_leader_changes_nothing_after_its_lease() -> None:
    report = run_pause_campaign("embedded", 3, 9.0, SEED)
    assert not report.effective_late, str(report)


@pytest.mark.real
@pytest.mark.deep
def test_a_paused_leader_changes_nothing_on_a_real_control_plane() -> None:
    report = run_pause_campaign("real", 3, 9.0, SEED)
    assert not report.effective_late, str(report)


def test_a_write_that_was_acknowledged_and_is_gone_is_found() -> None:
    writer = Writer(0, random.Random(0), acknowledged={"w0-1": 1, "w0-2": 5}, pending=("w0-3", 6))
    assert writer.find_lost({"w0-1": 1, "w0-2": 4, "w1-9": 9}) == ["w0-2: 4 instead of ['5']"]
    writer = Writer(0, random.Random(0), acknowledged={"w0-1": 1}, pending=("w0-1", None))
    assert writer.find_lost({}) == []
    writer = Writer(0, random.Random(0))
    assert writer.find_lost({"w0-1": 1}) == ["w0-1: 1 instead of ['None']"]


def test_a_program_that_runs_twice_is_found(tmp_path: Path) -> None:
    env = {**os.environ, "LEDGER": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", RUN_ONCE], env=env) as first:
        while not (tmp_path / "starts").exists():
            assert first.poll() is None
        assert subprocess.run([sys.executable, "-c", RUN_ONCE], env=env, check=False, timeout=30).returncode == 1
        first.kill()
    assert len((tmp_path / "twice").read_text().splitlines()) == 1


def test_a_late_write_or_a_late_take_over_spoils_a_report() -> None:
    assert PauseReport(9.0, ratios=[1.0, 1.1]).is_clean
    assert not PauseReport(9.0, ratios=[1.0, 1.11]).is_clean
    assert not PauseReport(9.0, ratios=[1.0], effective_late=["POST /pods: version 9 after 8"]).is_clean
