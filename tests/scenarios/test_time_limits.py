"""How long a job may take to start, may run, and is kept: the clock and those who change it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from pliant.model.messages import MessageReason, message
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.nodes import Ends, PaperNodes, Runs, paper_nodes
from tests.scenarios.scene import Scene
from tests.scenarios.table import side_by_side

LATE = Runs(after=600)


def a_job(nodes: PaperNodes, name: str, rules: dict[str, Any] | None = None, **fields: Any) -> Manifest:
    return job(name, {"worker": nodes.place(group(FOREVER, 2, **(rules or {})))}, **fields)


def seconds(scene: Scene, name: str, first: str, last: str) -> float:
    """The time between two moments that a status tells."""
    start, end = (datetime.fromisoformat(scene.status(name)[word]) for word in (first, last))
    return (end - start).total_seconds()


def start_limit_of(scene: Scene, name: str) -> str | int:
    """The limit within which a job has not started; what it waited for is told as well."""
    told = scene.message(name)
    assert (told.reason, len(told.details)) == (MessageReason.START_LIMIT_EXCEEDED, 1)
    return told.parameters["limit"]


def is_cleared(scene: Scene, name: str) -> bool:
    return not any(each.startswith(f"{name}-") for each in [*scene.pods, *scene.services])


async def measured(scene: Scene, nodes: PaperNodes, name: str, limit: int) -> None:
    """Wait as long as a job with a limit may run that starts now."""
    await scene.submit(a_job(nodes, f"{name}-measure", timeLimit=limit))
    await scene.until_phase(f"{name}-measure", "Timeout")


async def a_job_that_runs_too_long_ends_and_leaves_nothing(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(nodes, name, timeLimit=2, cleanPodPolicy="None"))
    status = await scene.until_phase(name, "Timeout")
    assert scene.message(name) == message(MessageReason.TIME_LIMIT_EXCEEDED, limit="0:00:02")
    assert status["reason"] == "TrainingJobTimeout"
    assert seconds(scene, name, "startRunningTime", "endTime") >= 2
    assert "Terminating" in scene.phases(name)
    await scene.until(lambda: is_cleared(scene, name), "nothing left")


async def the_clock_starts_when_all_run(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Runs(after=2.5)]
    await scene.submit(a_job(nodes, name, timeLimit=1))
    await scene.until_phase(name, "Timeout")
    assert "Running" in scene.phases(name)
    assert seconds(scene, name, "startTime", "endTime") >= 3


async def a_limit_can_be_raised_and_lifted(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(nodes, name, timeLimit=2))
    await scene.submit(a_job(nodes, f"{name}-lifted", timeLimit=2))
    await scene.edit(name, {"spec": {"timeLimit": 600}})
    await scene.edit(f"{name}-lifted", {"spec": {"timeLimit": None}})
    await measured(scene, nodes, name, 3)
    assert scene.phase(name) == scene.phase(f"{name}-lifted") == "Running"


async def a_limit_below_what_has_run_ends_a_job_at_once(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(nodes, name, timeLimit=600))
    await scene.until_phase(name, "Running")
    await measured(scene, nodes, name, 2)
    await scene.edit(name, {"spec": {"timeLimit": 1}})
    await scene.until_phase(name, "Timeout")
    assert seconds(scene, name, "startRunningTime", "endTime") >= 2


async def a_limit_may_come_later(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(nodes, name))
    await scene.until_phase(name, "Running")
    await scene.edit(name, {"spec": {"timeLimit": 2}})
    await scene.until_phase(name, "Timeout")
    assert seconds(scene, name, "startRunningTime", "endTime") >= 2


async def the_clock_stands_while_a_job_is_suspended(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(nodes, name, timeLimit=3))
    await scene.until_phase(name, "Running")
    await scene.edit(name, {"spec": {"suspend": True}})
    await measured(scene, nodes, name, 3)
    assert scene.phase(name) == "Suspended"
    await scene.edit(name, {"spec": {"suspend": False}})
    await scene.until_phase(name, "Timeout")
    assert scene.phases(name).count("Running") == 2
    assert seconds(scene, name, "startRunningTime", "endTime") >= 5


async def the_clock_runs_through_restarts(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Runs(), LATE]
    await scene.submit(a_job(nodes, name, {"restartPolicy": "Always"}, timeLimit=2))
    await scene.until_phase(name, "Running")
    nodes.order(f"{name}-worker-0", Ends(1))
    await scene.until_phase(name, "Timeout")
    assert scene.phases(name)[-3:] == ["Restarting", "Terminating", "Timeout"]


async def a_job_that_is_done_in_time_succeeds(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Ends(0, after=1)]
    await scene.submit(a_job(nodes, name, timeLimit=3))
    await scene.until_phase(name, "Succeed", "Timeout")
    assert scene.phase(name) == "Succeed"


# The limit passes in real time; tests/engine/test_time_limits.py and tests/faults show it in virtual time.
@pytest.mark.deep
async def test_a_job_may_run_so_long_and_no_longer(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await side_by_side(
            scene,
            nodes,
            a_job_that_runs_too_long_ends_and_leaves_nothing,
            the_clock_starts_when_all_run,
            a_limit_can_be_raised_and_lifted,
            a_limit_below_what_has_run_ends_a_job_at_once,
            a_limit_may_come_later,
            the_clock_stands_while_a_job_is_suspended,
            the_clock_runs_through_restarts,
            a_job_that_is_done_in_time_succeeds,
        )


async def nobody_waits_for_ever_for_a_place(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(nodes, name, startLimit=1, schedulerName="nobody", cleanPodPolicy="None"))
    status = await scene.until_phase(name, "Timeout")
    assert start_limit_of(scene, name) == "0:00:01"
    assert "startRunningTime" not in status
    await scene.until(lambda: is_cleared(scene, name), "nothing left")


async def all_must_run_in_time(scene: Scene, nodes: PaperNodes, name: str) -> None:
    late = nodes.place(group(FOREVER))
    late["template"]["spec"]["schedulerName"] = "nobody"
    await scene.submit(job(name, {"here": nodes.place(group(FOREVER)), "late": late}, startLimit=2))
    await scene.until(lambda: scene.status(name).get("ready") == "1/2", "one of two running")
    await scene.until_phase(name, "Timeout")


async def a_job_that_ran_in_time_may_take_its_time_later(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Runs(), LATE]
    await scene.submit(a_job(nodes, name, {"restartPolicy": "Always"}, startLimit=3))
    await scene.until_phase(name, "Running")
    nodes.order(f"{name}-worker-0", Ends(1))
    await scene.until_phase(name, "Restarting")
    await measured(scene, nodes, name, 3)
    assert scene.phase(name) == "Restarting"


async def a_start_begins_with_the_resumption(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Runs(), LATE]
    await scene.submit(a_job(nodes, name, startLimit=3))
    await scene.until_phase(name, "Running")
    await scene.edit(name, {"spec": {"suspend": True}})
    await scene.until(lambda: is_cleared(scene, name), "everybody gone")
    await scene.edit(name, {"spec": {"suspend": False}})
    await scene.until_phase(name, "Timeout")
    assert start_limit_of(scene, name) == "0:00:03"


async def nobody_is_late_who_was_not_to_start(scene: Scene, nodes: PaperNodes, name: str) -> None:
    await scene.submit(a_job(nodes, name, startLimit=2, suspend=True))
    await measured(scene, nodes, name, 3)
    assert scene.phase(name) == "Suspended"
    await scene.edit(name, {"spec": {"suspend": False}})
    await scene.until_phase(name, "Running")


async def more_time_to_start_may_be_given(scene: Scene, nodes: PaperNodes, name: str) -> None:
    nodes.scripts[name] = [Runs(after=4)]
    await scene.submit(a_job(nodes, name, startLimit=2))
    await scene.edit(name, {"spec": {"startLimit": 60}})
    await scene.until_phase(name, "Running", "Timeout")
    assert scene.phase(name) == "Running"


async def test_a_job_may_take_so_long_to_start_and_no_longer(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        await side_by_side(
            scene,
            nodes,
            nobody_waits_for_ever_for_a_place,
            all_must_run_in_time,
            a_job_that_ran_in_time_may_take_its_time_later,
            a_start_begins_with_the_resumption,
            nobody_is_late_who_was_not_to_start,
            more_time_to_start_may_be_given,
        )
