"""Each write of the operator goes wrong once, in every way the network knows, and the end is the same."""

from __future__ import annotations

import pytest

from tests.depth import sample
from tests.faults.rig import play, play_with_fault
from tests.faults.scenarios import SCENARIOS
from tests.faults.seam import FAULTS

CHOSEN = (
    "success",
    "restart of everything",
    "scaled in while running",
    "restarts until the budget is spent",
    "a node is lost and everybody restarted",
    "suspended and resumed",
    "replicas save their state before they leave",
)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", CHOSEN)
def test_the_end_is_the_same_whichever_write_goes_wrong(name: str, fault: str) -> None:
    scenario = SCENARIOS[name]
    undisturbed = play(scenario)
    for write in sample(range(1, undisturbed.writes + 1), 3, f"{fault} {name}"):
        run = play_with_fault(scenario, write, fault)
        what = f"{fault} at write {write} of {undisturbed.writes}"
        assert run.end == undisturbed.end, what
        assert run.late_writes == 0, what
        assert run.deleted_early == [], what
        assert run.made == undisturbed.made, what
