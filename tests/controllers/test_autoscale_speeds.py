"""How fast a job is at each size, told from what its members report."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pliant.autoscale.cooldowns import ResizeCooldowns
from pliant.controllers.autoscale.options import AutoscaleOptions
from pliant.controllers.autoscale.throughput import MAX_MEASURED_SIZES, ThroughputTracker
from pliant.model.state import EngineState, GroupState, JobPhase, ReplicaCounts
from tests.builders import StoredJob
from tests.controllers.autoscaling import seconds, staged
from tests.controllers.test_autoscale_picture import NOON, job
from tests.faults.rig import JOBS
from tests.virtual_time import VirtualClock, on_virtual_time


def at_size(size: int, *, active: int | None = None, speeds: dict[int, float] | None = None) -> StoredJob:
    memory = GroupState(applied_size=size, throughput_by_size=speeds or {})
    counts = {"worker": ReplicaCounts(size=size, active=size if active is None else active)}
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON, groups={"worker": memory}, replica_counts=counts)
    return replace(job(), state=state)


def report(
    second: float, step: int | None = None, *, throughput: str = "", metrics: dict[str, str] | None = None
) -> dict[str, Any]:
    told = metrics or ({"throughput": throughput} if throughput else {})
    return {"step": step, "metrics": told, "time": (NOON + timedelta(seconds=second)).isoformat()}


def readings(*told: tuple[StoredJob, dict[str, Any]]) -> dict[int, float]:
    """What is told anew after the last of some reports."""
    meter = ThroughputTracker()
    found: dict[int, float] = {}
    for each, progress in told:
        assert each.state is not None
        found = dict(meter.measure(each, each.state, "worker", progress))
    return found


@pytest.mark.parametrize("name", ["throughput", "samples_per_second", "tokens_per_second"])
def test_a_speed_that_is_reported_counts_from_the_second_report_at_a_size(name: str) -> None:
    assert readings((at_size(4), report(0, metrics={name: "80"}))) == {}
    assert readings((at_size(4), report(0, metrics={name: "70"})), (at_size(4), report(30, metrics={name: "80"}))) == {
        4: 80.0
    }
    assert readings((at_size(2), report(0, metrics={name: "70"})), (at_size(4), report(30, metrics={name: "80"}))) == {}


def test_else_steps_are_counted_each_of_which_takes_a_batch_of_every_member() -> None:
    assert readings((at_size(4), report(0, 100)), (at_size(4), report(10, 150))) == {4: 20.0}
    assert readings((at_size(4), report(0, 100)), (at_size(4), report(10, 50))) == {}
    assert readings((at_size(4), report(0, 100)), (at_size(4), report(1, 150))) == {}


def test_nothing_is_told_while_some_member_is_not_at_work() -> None:
    slow = (at_size(4, active=3), report(30, throughput="50"))
    assert readings((at_size(4), report(0, throughput="80")), slow) == {}
    assert readings((at_size(4), report(0, throughput="80")), slow, (at_size(4), report(60, throughput="80"))) == {}


def test_known_speeds_are_mended_slowly_and_small_differences_are_no_news() -> None:
    known = at_size(4, speeds={2: 50.0, 4: 80.0})
    assert readings((known, report(0)), (known, report(30, throughput="84"))) == {}
    assert readings((known, report(0)), (known, report(30, throughput="100"))) == {2: 50.0, 4: 90.0}


def test_what_is_remembered_stays_small() -> None:
    known = at_size(30, speeds={size: float(size) for size in range(1, 30)})
    found = readings((known, report(0)), (known, report(30, throughput="30")))
    assert sorted(found) == list(range(31 - MAX_MEASURED_SIZES, 31))


@pytest.mark.parametrize("progress", [{}, {"metrics": "x"}, report(30, throughput="nan"), report(30, throughput="x")])
def test_what_makes_no_sense_is_passed_over(progress: dict[str, Any]) -> None:
    assert readings((at_size(4), report(0)), (at_size(4), progress)) == {}


@on_virtual_time
async def test_a_job_that_gets_no_faster_grows_no_further_and_that_is_remembered() -> None:
    options = AutoscaleOptions(policy="goodput", cooldowns=ResizeCooldowns(opposite_direction_cooldown=2.0))
    async with staged(nodes=4, options=options) as stage:
        await stage.submit("demo", minReplicas=1, maxReplicas=12)
        sizes = []
        for _ in range(12):
            await seconds(30)
            size = await stage.size("demo")
            sizes.append(size)
            speed = 10.0 * min(size, 4)
            now = VirtualClock().now().isoformat()
            progress = {"progress": {"metrics": {"throughput": str(speed)}, "time": now}}
            await stage.client.patch(JOBS, "default", "demo", {"status": progress}, subresource="status")
        # It is measured before it grows, and grows step by step.
        assert sizes[:3] == [2, 2, 4]
        assert 4 <= sizes[-1] <= 8
        assert sizes[-3:] == [sizes[-1]] * 3
        memory = (await stage.client.get(JOBS, "default", "demo"))["status"]["pliant"]["groups"]["worker"]
        assert memory["throughputBySize"][str(sizes[-1])] == pytest.approx(40.0, rel=0.1)
        await stage.restart(options)
        await seconds(60)
        assert await stage.size("demo") == sizes[-1]
