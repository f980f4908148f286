"""What holds of every simulated cluster at all times, whatever is done to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.autoscale.policies import ALL_POLICIES
from pliant.simulation.crews import Crew, State
from pliant.simulation.delays import Delays
from pliant.simulation.measures import jain
from pliant.simulation.rounds import Rounds
from pliant.simulation.run import Settings, settings_for, simulate
from pliant.simulation.trace import JobSpec, ServiceSpec, Trace
from pliant.simulation.world import World
from tests.simulation.traces import cores, job, nodes

delays = st.builds(
    Delays,
    place=st.sampled_from([0.0, 0.5]),
    start=st.sampled_from([0.0, 3.0]),
    leave=st.sampled_from([0.0, 2.0, 30.0]),
    retry=st.sampled_from([0.0, 1.0, 20.0]),
)


@st.composite
def jobs(draw: st.DrawFn, name: str) -> JobSpec:
    least = draw(st.integers(0, 3))
    return job(
        name,
        least,
        max(least + draw(st.integers(0, 6)), 1),
        submit=float(draw(st.integers(0, 60))),
        work=draw(st.sampled_from([float("inf"), 20.0, 100.0])),
        shape=cores(draw(st.integers(1, 5)), gpus=draw(st.sampled_from([0, 0, 1]))),
        servers=draw(st.integers(0, 2)),
        priority=draw(st.integers(0, 1)),
        pause=draw(st.sampled_from([0.0, 5.0])),
    )


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    steps = tuple((20.0 * at, draw(st.integers(0, 8))) for at in range(4))
    number = draw(st.integers(1, 5))
    return Trace(
        nodes=(nodes(draw(st.integers(1, 3)), 4), nodes(draw(st.integers(1, 2)), 6, gpus=2)),
        jobs=tuple(draw(jobs(f"job-{at}")) for at in range(number)),
        services=(ServiceSpec(name="web", shape=cores(2), steps=steps),),
        until=200.0,
    )


def crews(world: World) -> list[Crew]:
    return [*world.services, *(crew for one in world.jobs for crew in (*one.staff, one.members))]


def check(world: World) -> None:
    """Every book agrees with what is there, and no node holds more than it has."""
    machines, pods = world.machines, world.pods
    assert not list(machines.overfull())
    held = [list(pods.lingering.get(node, [0] * len(machines.resources))) for node in range(len(machines.names))]
    elastic = [[0] * len(machines.resources) for _ in machines.names]
    for crew in crews(world):
        states = [pod.state for pod in crew.pods]
        assert crew.waiting == states.count(State.WAITING)
        assert crew.running == states.count(State.RUNNING)
        for pod in crew.pods:
            if pod.node >= 0:
                for position, amount in crew.needs or ():
                    held[pod.node][position] += amount
                    elastic[pod.node][position] += amount * crew.is_elastic
    assert pods.elastic == elastic
    assert pods.waiting == sum(crew.waiting for crew in crews(world))
    for room, free, there in zip(machines.rooms, machines.free, held, strict=True):
        assert there == [room.get(name, 0) - left for name, left in zip(machines.resources, free, strict=True)]


@pytest.mark.parametrize("policy", ["none", *ALL_POLICIES])
@given(trace=traces(), delays=delays)
def test_books_always_agree_and_no_node_is_overfull(policy: str, trace: Trace, delays: Delays) -> None:
    settings = settings_for(policy, trace, Settings(delays=delays))
    chosen = ALL_POLICIES.get(policy)
    world = World(trace, settings.delays, is_scaled=chosen is not None)
    if chosen is not None:
        Rounds(world, chosen, settings.rhythm, lambda: 0.0)
    for time in range(0, 200, 4):
        world.agenda.advance(float(time))
        check(world)
    for one in world.jobs:
        assert one.ended_at is not None or one.spec.most >= len(one.members.pods) >= min(
            one.spec.least, one.spec.fixed
        )


@pytest.mark.parametrize("policy", ["none", *ALL_POLICIES])
@given(trace=traces())
def test_the_same_trace_always_comes_to_the_same(policy: str, trace: Trace) -> None:
    settings = settings_for(policy, trace, Settings())
    first, second = (simulate(trace, ALL_POLICIES.get(policy), settings) for _ in range(2))
    assert first == second


@given(st.lists(st.integers(0, 50), min_size=1))
def test_fairness_is_1_for_equals_and_never_below_one_in_all(amounts: list[int]) -> None:
    assert 1 / len(amounts) - 1e-9 <= jain(amounts) <= 1 + 1e-9
    assert jain([amounts[0]] * 5) == 1.0
