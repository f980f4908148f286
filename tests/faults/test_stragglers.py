"""A write that arrives when its sender is dead and another operator at work does no harm, whenever that is."""

from __future__ import annotations

import pytest

from tests.depth import sample
from tests.faults.rig import Run, Scenario, play, play_with_straggler
from tests.faults.scenarios import SCENARIOS

DELAYS = (0.01, 0.3, 1.1, 3.0, 7.0, 40.0)
"""Seconds, from the midst of the successor's first pass to long after the end."""
WHOLE = ("success", "restart of everything", "restarts until the budget is spent")
"""Lives that are never sampled: some planted bugs are shown by a few of their writes and by nothing else."""


def assert_harmless(run: Run, undisturbed: Run, what: str) -> None:
    assert run.end == undisturbed.end, what
    assert run.late_writes == 0, f"{what}: still writing when everything is at rest"


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_straggler_changes_nothing(name: str) -> None:
    scenario = SCENARIOS[name]
    undisturbed = play(scenario)
    writes = range(1, undisturbed.writes + 1)
    for write in writes if name in WHOLE else sample(writes, 2, f"straggler {name}"):
        delay = DELAYS[write % len(DELAYS)]
        run = play_with_straggler(scenario, write, delay)
        assert_harmless(run, undisturbed, f"write {write} arrived after {delay}s")


@pytest.mark.deep
@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_no_straggler_changes_anything(scenario: Scenario, delay: float) -> None:
    undisturbed = play(scenario)
    for write in range(1, undisturbed.writes + 1):
        run = play_with_straggler(scenario, write, delay)
        assert_harmless(run, undisturbed, f"write {write} arrived after {delay}s")
