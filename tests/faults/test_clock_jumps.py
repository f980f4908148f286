"""The clock is set or the machine sleeps at any moment of a job, and the end is the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from tests.depth import sample
from tests.faults.rig import play, play_with_jump
from tests.faults.scenarios import SCENARIOS
from tests.virtual_time import VirtualClock

HOURS, DAYS = timedelta(hours=2), timedelta(days=2)
JUMPS: dict[str, Callable[[VirtualClock], None]] = {
    **{
        f"the clock is set by {jump.total_seconds() / 3600:+.0f} h": partial(VirtualClock.jump_wall, by=jump)
        for jump in (HOURS, -HOURS, DAYS, -DAYS)
    },
    "the machine sleeps for 2 h": partial(VirtualClock.suspend, duration=HOURS),
}
MOMENTS = (0.1, 0.5, 1.5, 2.3, 3.1, 4.5, 7.0)
"""Seconds after the start: pods come up within one, run for two, and are then restarted or deleted."""


@pytest.mark.parametrize("jump", JUMPS)
def test_the_end_is_the_same_whenever_the_clock_jumps(jump: str) -> None:
    cases = [(name, moment) for name in SCENARIOS for moment in MOMENTS]
    for name, moment in sample(cases, 6, f"clock {jump}"):
        undisturbed, run = play(SCENARIOS[name]), play_with_jump(SCENARIOS[name], moment, JUMPS[jump])
        what = f"{name}: {jump} after {moment} s"
        assert run.end == undisturbed.end, what
        assert run.made == undisturbed.made, what
        assert run.late_writes == undisturbed.late_writes, what


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("name", ["time is up", "it never comes up", "kept for a while and then gone"])
def test_a_limit_is_reached_at_its_time_whenever_the_clock_jumps(name: str, jump: str) -> None:
    undisturbed = play(SCENARIOS[name])
    run = play_with_jump(SCENARIOS[name], 1.5, JUMPS[jump])
    assert (run.end, run.writes, run.made) == (undisturbed.end, undisturbed.writes, undisturbed.made)
