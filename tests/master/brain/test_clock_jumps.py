"""When the clock of the master jumps, its members are not blamed for it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pliant.master.brain.state import BrainState, align_to_clock_jump
from pliant.master.brain.timing import BrainTiming
from pliant.master.model import MasterRoleSpec
from tests.master.brain.world import BEGIN, World, job

HOURS, DAYS = timedelta(hours=2), timedelta(days=2)


@pytest.mark.parametrize("jump", [HOURS, -HOURS, DAYS, -DAYS])
def test_nobody_is_replaced_after_a_jump(jump: timedelta) -> None:
    world = World(facts=job(MasterRoleSpec(type="worker", replicas=3)), tempo=BrainTiming(hang_timeout=60)).run(30)
    before = len(world.steps)
    world.now += jump
    world.memory = align_to_clock_jump(world.memory, jump)
    world.decide()  # before anybody has reported again
    world.run(200)
    assert len(world.steps) == before


@pytest.mark.parametrize("jump", [HOURS, -HOURS, DAYS, -DAYS])
def test_waits_last_as_long_as_before(jump: timedelta) -> None:
    state = BrainState(worker_cap_until=BEGIN, ps_changed_at=BEGIN, straggler_replaced_at=(BEGIN,))
    moved = align_to_clock_jump(state, jump)
    assert (moved.worker_cap_until, moved.ps_changed_at) == (BEGIN + jump, BEGIN + jump)
    assert moved.straggler_replaced_at == (BEGIN + jump,)
