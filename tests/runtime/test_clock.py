"""Jumps of the time of day are noticed, and timestamps are moved by them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pliant.runtime.clock import ClockJumpDetector, JumpAwareClock, SystemClock, read_wall_offset
from tests.virtual_time import ThreeClocks

HOURS, DAYS, MINUTE = timedelta(hours=2), timedelta(days=2), timedelta(minutes=1)


@pytest.mark.parametrize("jump", [HOURS, -HOURS, DAYS, -DAYS])
def test_a_jump_is_noticed_once(jump: timedelta) -> None:
    clock = ThreeClocks()
    detector = ClockJumpDetector(clock)
    clock.advance(3600)
    assert not detector.read_jump()
    clock.jump_wall(jump)
    clock.advance(60)
    assert detector.read_jump() == jump
    assert not detector.read_jump()


def test_sleep_is_a_jump_and_a_small_correction_is_none() -> None:
    clock = ThreeClocks()
    detector = ClockJumpDetector(clock)
    clock.suspend(HOURS)
    assert detector.read_jump() == HOURS
    clock.jump_wall(timedelta(seconds=0.9))
    assert not detector.read_jump()


@pytest.mark.parametrize("jump", [HOURS, -HOURS, DAYS, -DAYS])
def test_the_age_of_a_timestamp_from_before_a_jump_stays(jump: timedelta) -> None:
    clock = ThreeClocks()
    aware, written = JumpAwareClock(clock), clock.now()
    clock.advance(60)
    clock.jump_wall(jump)
    assert aware.now() - aware.to_present(written) == MINUTE
    clock.advance(60)
    assert aware.now() - aware.to_present(written) == 2 * MINUTE
    later = clock.now()
    clock.advance(60)
    assert aware.now() - aware.to_present(later) == MINUTE


def test_jumps_add_up() -> None:
    clock = ThreeClocks()
    aware, written = JumpAwareClock(clock), clock.now()
    for jump in (HOURS, DAYS, timedelta(minutes=7)):
        clock.jump_wall(jump)
        clock.advance(60)
        aware.now()
    assert aware.now() - aware.to_present(written) == 3 * MINUTE


def test_a_time_that_passed_twice_counts_as_the_later_one() -> None:
    clock = ThreeClocks()
    aware = JumpAwareClock(clock)
    clock.advance(7200)
    clock.jump_wall(-HOURS)
    aware.now()
    clock.advance(3600)
    assert aware.to_present(clock.now()) == clock.now()


def test_the_offset_stays_within_a_process_that_runs_undisturbed() -> None:
    clock = SystemClock()
    assert abs(read_wall_offset(clock) - read_wall_offset(clock)) < 0.5
    assert JumpAwareClock(clock).wall_offset() == pytest.approx(read_wall_offset(clock), abs=0.5)
    assert clock.uptime() >= clock.monotonic() - 0.5


class _Stopped(ThreeClocks):
    """A process that is stopped for ten seconds while it reads its clocks for the first time."""

    def __init__(self) -> None:
        super().__init__()
        self._is_stopped = True

    def monotonic(self) -> float:
        read = super().monotonic()
        if self._is_stopped:
            self._is_stopped = False
            self.advance(10)
        return read


def test_a_process_that_is_stopped_between_two_readings_reads_again() -> None:
    undisturbed = ThreeClocks()
    assert read_wall_offset(_Stopped()) == read_wall_offset(undisturbed)
