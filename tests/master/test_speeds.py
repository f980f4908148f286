"""How fast a job is with so many workers, and which part of its time was of use."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.master.data.shards import MemberProcess
from pliant.master.members.heartbeats import GoodputTracker, HeartbeatTracker
from pliant.master.members.throughput import ThroughputMeter
from pliant.master.model import Heartbeat, MemberKey
from tests.master.people import EPOCH


def play(speeds: ThroughputMeter, workers: int, rate: float, seconds: float, begin: float, step: float = 1.0) -> float:
    """Workers that learn evenly and beat once a second, not all at the same time; tells the time at the end."""
    members = frozenset(range(workers))
    speeds.set_workers(members, begin)
    ticks = int(seconds * 10)
    for tick in range(ticks):
        now = begin + tick / 10
        for worker in members:
            if (tick + worker) % 10 == 0:
                done = (now - begin) // step * step
                speeds.record_samples(worker, worker, rate * done, now)
        speeds.update_window(now)
    return begin + seconds


@given(st.integers(1, 6), st.floats(0.5, 5000.0))
def test_the_speed_is_that_of_all_workers_together(workers: int, rate: float) -> None:
    speeds = ThroughputMeter(settle_seconds=5, window_seconds=10)
    play(speeds, workers, rate, 60, 0)
    assert speeds.speed_by_worker_count() == {workers: pytest.approx(workers * rate, rel=0.001)}


def test_long_steps_are_measured_as_well_as_short_ones() -> None:
    speeds = ThroughputMeter(settle_seconds=5, window_seconds=10)
    play(speeds, 2, 100.0, 400, 0, step=30.0)
    assert speeds.speed_by_worker_count() == {2: pytest.approx(200.0, rel=0.05)}


def test_nothing_is_measured_while_workers_come_and_go() -> None:
    speeds = ThroughputMeter(settle_seconds=5, window_seconds=10)
    now = 0.0
    for workers in (1, 2, 3, 2, 1):
        now = play(speeds, workers, 10.0, 14.0, now)
    assert speeds.speed_by_worker_count() == {}


def test_each_number_of_workers_has_a_speed_of_its_own_which_outlives_the_master() -> None:
    speeds = ThroughputMeter(settle_seconds=5, window_seconds=10)
    now = play(speeds, 2, 10.0, 40, 0)
    play(speeds, 3, 8.0, 40, now)
    again = ThroughputMeter(settle_seconds=5, window_seconds=10)
    again.load_state(speeds.dump_state())
    assert again.speed_by_worker_count() == {2: pytest.approx(20.0, rel=0.01), 3: pytest.approx(24.0, rel=0.01)}


def test_a_worker_that_was_not_heard_of_keeps_the_others_from_being_measured() -> None:
    speeds = ThroughputMeter(settle_seconds=1, window_seconds=2)
    speeds.set_workers(frozenset({0, 1}), 0.0)
    for tick in range(100):
        speeds.record_samples(0, 0, 10.0 * tick, tick / 10)
        speeds.update_window(tick / 10)
    assert speeds.speed_by_worker_count() == {}


def test_a_process_that_begins_again_counts_from_zero() -> None:
    speeds = ThroughputMeter(settle_seconds=0, window_seconds=5)
    speeds.set_workers(frozenset({0}), 0.0)
    for second in range(12):
        speeds.record_samples(0, 0, 10.0 * (second if second < 4 else second - 4), float(second))
        speeds.update_window(float(second))
    # The step in which it began again is lost, no more.
    assert 7.0 <= speeds.speed_by_worker_count()[1] <= 10.0


def test_a_member_is_all_its_processes_together() -> None:
    beats, key = HeartbeatTracker(process_timeout=60.0), MemberKey("worker", 0)
    beats.record_process_report(
        MemberProcess(key, 1), Heartbeat(at=EPOCH, step=5, samples=50, cpu=1.0, memory=100, ps_version=2), 0.0
    )
    found = beats.record_process_report(
        MemberProcess(key, 2), Heartbeat(at=EPOCH, step=4, samples=40, cpu=0.5, memory=200, ps_version=1), 1.0
    )
    assert (found.step, found.samples, found.cpu, found.memory, found.ps_version) == (5, 90, 1.5, 300, 1)
    later = EPOCH + timedelta(seconds=100)
    found = beats.record_process_report(
        MemberProcess(key, 2), Heartbeat(at=later, step=9, samples=60, memory=200), 100.0
    )
    assert (found.at, found.step, found.samples, found.memory, found.cpu) == (later, 9, 110, 200, None)
    beats.retain_only_members([])
    assert not beats.by_member()


def test_only_time_in_which_the_job_comes_further_is_of_use() -> None:
    progress = GoodputTracker()
    for second in range(101):
        progress.record_progress(second + 1, False, float(second))
    # A crash: half a minute of nothing, then twenty steps again.
    for second in range(20):
        progress.record_progress(82 + second, False, 130.0 + second)
    for second in range(51):
        progress.record_progress(102 + second, False, 150.0 + second)
    assert progress.elapsed_seconds == 200.0
    assert progress.useful_seconds == 150.0
    assert progress.goodput == 0.75
    again = GoodputTracker()
    again.load_state(progress.dump_state())
    assert again.goodput == 0.75
    assert again.max_step == 152
