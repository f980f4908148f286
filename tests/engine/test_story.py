"""Events and timelines."""

from __future__ import annotations

from pliant.model.state import SizeRequester
from tests.builders import make_group, make_job, restarting
from tests.engine.world import World


def test_the_timeline_is_bounded() -> None:
    world = World(make_job(make_group(size=1, restart=restarting(limit=40))), lambda pod: 1)
    world.settle(rounds=2000)
    assert world.job.state is not None
    assert len(world.job.state.timeline) == 24


def test_the_timeline_tells_a_whole_life() -> None:
    world = World(
        make_job(make_group(restart=restarting(limit=1), requested_sizes={SizeRequester.SPEC: 2})), lambda pod: -1
    )
    world.settle()
    world.resize("worker", spec=3)
    world.settle()
    world.suspend()
    world.settle()
    world.resume()
    world.settle()
    world.evict("demo-worker-1")
    world.settle()
    world.ending = lambda pod: 1 if pod.index == 2 and pod.attempt < 2 else -1
    world.settle()
    world.ending = lambda pod: 0
    world.settle()
    told = [moment.reason for moment in world.memory.timeline]
    assert told == [
        "Pending",
        "Running",
        "Resized",
        "Suspended",
        "Resumed",
        "Running",
        "Disrupted",
        "Restarting",
        "Running",
        "Succeed",
    ]


def test_every_change_of_course_is_told_as_an_event_of_the_same_name() -> None:
    world = World(make_job(make_group(restart=restarting(limit=1))), lambda pod: 1 if pod.index else -1)
    world.settle()
    reasons = [event.reason for event in world.events]
    assert reasons == ["Restarting", "Failed"]
    assert [event.is_warning for event in world.events] == [True, True]
    turns = [moment.reason for moment in world.memory.timeline if moment.reason not in ("Pending", "Running")]
    assert turns == reasons


def test_success_is_no_warning() -> None:
    world = World(make_job(), lambda pod: 0)
    world.settle()
    assert [(event.reason, event.is_warning) for event in world.events] == [("Succeed", False)]
