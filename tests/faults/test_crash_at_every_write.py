"""The operator dies before and after each of its writes, comes back, and the end is as if it never had."""

from __future__ import annotations

from itertools import product

import pytest

from tests.depth import sample
from tests.faults.rig import Run, Scenario, play
from tests.faults.scenarios import SCENARIOS


def assert_within_limits(scenario: Scenario, run: Run) -> None:
    """No group restarts more often than it may, and a job that is gone or over has left nothing it should not."""
    end = run.end
    is_over = end.job is not None and end.job["phase"] in ("Timeout", "Preempted", "NodeFail")
    if end.job is None or is_over:
        assert (end.pods, end.services) == ({}, [])
    for name, group in scenario.spec["replicaSpecs"].items():
        spent = end.job["RestartCount"][name] if end.job is not None else 0
        assert spent <= group.get("restartLimit", spent)


def assert_sound(run: Run, undisturbed: Run, what: str) -> None:
    assert run.end == undisturbed.end, what
    assert run.deleted_early == [], f"{what}: deleted before the state was saved"
    assert run.late_writes == 0, f"{what}: still writing when everything is at rest"


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_end_is_the_same_wherever_the_operator_dies(name: str) -> None:
    scenario = SCENARIOS[name]
    undisturbed = play(scenario)
    assert undisturbed.writes > 3
    assert undisturbed.late_writes == 0
    assert undisturbed.deleted_early == []
    assert_within_limits(scenario, undisturbed)
    moments = product(range(1, undisturbed.writes + 1), (False, True))
    for write, is_sent in sample(moments, 3, f"crash {name}"):
        run = play(scenario, fatal=write, is_sent=is_sent)
        what = f"died {'after' if is_sent else 'before'} write {write} of {undisturbed.writes}"
        assert_sound(run, undisturbed, what)
        again = {pod: times for pod, times in run.made.items() if times > undisturbed.made[pod]}
        assert not again, f"{what}: made again {again}"
