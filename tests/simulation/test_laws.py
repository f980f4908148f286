"""What holds of every simulated cluster at all times, whatever is done to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.autoscale.policies.registry import SIMULATION_POLICIES
from pliant.simulation.autoscaler import SimulatedAutoscaler
from pliant.simulation.cluster import SimulatedCluster
from pliant.simulation.delays import SimulatedDelays
from pliant.simulation.metrics import jain_index
from pliant.simulation.run import SimulationSettings, settings_with_policy_timing, simulate_trace
from pliant.simulation.trace import SimulationTrace, TraceJob, TraceService
from pliant.simulation.workloads import PodSet, SimulatedPodState
from tests.simulation.traces import cores, job, nodes

delays = st.builds(
    SimulatedDelays,
    schedule=st.sampled_from([0.0, 0.5]),
    start=st.sampled_from([0.0, 3.0]),
    terminate=st.sampled_from([0.0, 2.0, 30.0]),
    reschedule=st.sampled_from([0.0, 1.0, 20.0]),
)


@st.composite
def jobs(draw: st.DrawFn, name: str) -> TraceJob:
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
def traces(draw: st.DrawFn) -> SimulationTrace:
    steps = tuple((20.0 * at, draw(st.integers(0, 8))) for at in range(4))
    number = draw(st.integers(1, 5))
    return SimulationTrace(
        nodes=(nodes(draw(st.integers(1, 3)), 4), nodes(draw(st.integers(1, 2)), 6, gpus=2)),
        jobs=tuple(draw(jobs(f"job-{at}")) for at in range(number)),
        services=(TraceService(name="web", shape=cores(2), replica_steps=steps),),
        end_at=200.0,
    )


def crews(world: SimulatedCluster) -> list[PodSet]:
    return [*world.services, *(crew for one in world.jobs for crew in (*one.fixed_pod_sets, one.replicas))]


def check(world: SimulatedCluster) -> None:
    """Every book agrees with what is there, and no node holds more than it has."""
    machines, pods = world.nodes, world.pods
    assert all(min(free, default=0) >= 0 for free in machines.free)
    held = [
        list(pods.terminating_usage.get(node, [0] * len(machines.resources)))
        for node in range(len(machines.node_names))
    ]
    elastic = [[0] * len(machines.resources) for _ in machines.node_names]
    for crew in crews(world):
        states = [pod.state for pod in crew.pods]
        assert crew.pending_count == states.count(SimulatedPodState.PENDING)
        assert crew.running_count == states.count(SimulatedPodState.RUNNING)
        for pod in crew.pods:
            if pod.node >= 0:
                for position, amount in crew.indexed_requests or ():
                    held[pod.node][position] += amount
                    elastic[pod.node][position] += amount * crew.is_elastic
    assert pods.elastic_usage == elastic
    assert pods.pending_count == sum(crew.pending_count for crew in crews(world))
    for room, free, there in zip(machines.allocatable, machines.free, held, strict=True):
        assert there == [room.get(name, 0) - left for name, left in zip(machines.resources, free, strict=True)]


@pytest.mark.parametrize("policy", ["none", *SIMULATION_POLICIES])
@given(trace=traces(), delays=delays)
def test_books_always_agree_and_no_node_is_overfull(
    policy: str, trace: SimulationTrace, delays: SimulatedDelays
) -> None:
    settings = settings_with_policy_timing(policy, trace, SimulationSettings(delays=delays))
    chosen = SIMULATION_POLICIES.get(policy)
    world = SimulatedCluster(trace, settings.delays, is_autoscaled=chosen is not None)
    if chosen is not None:
        SimulatedAutoscaler(world, chosen, settings.timing, lambda: 0.0)
    for time in range(0, 200, 4):
        world.event_queue.run_until(float(time))
        check(world)
    for one in world.jobs:
        assert one.ended_at is not None or one.spec.max_size >= len(one.replicas.pods) >= min(
            one.spec.min_size, one.spec.static_size
        )


@pytest.mark.parametrize("policy", ["none", *SIMULATION_POLICIES])
@given(trace=traces())
def test_the_same_trace_always_comes_to_the_same(policy: str, trace: SimulationTrace) -> None:
    settings = settings_with_policy_timing(policy, trace, SimulationSettings())
    first, second = (simulate_trace(trace, SIMULATION_POLICIES.get(policy), settings) for _ in range(2))
    assert first == second


@given(st.lists(st.integers(0, 50), min_size=1))
def test_fairness_is_1_for_equals_and_never_below_one_in_all(amounts: list[int]) -> None:
    assert 1 / len(amounts) - 1e-9 <= jain_index(amounts) <= 1 + 1e-9
    assert jain_index([amounts[0]] * 5) == 1.0
