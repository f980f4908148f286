"""The published experiments, simulated: ours do what is asked of them, and the published one what it did."""

from __future__ import annotations

from functools import cache
from random import Random
from statistics import fmean

import pytest

from pliant.autoscale.policies.registry import SELECTABLE_POLICIES, SIMULATION_POLICIES
from pliant.simulation.delays import EDL_DELAYS, SimulatedDelays
from pliant.simulation.experiments import TRACE_FACTORY_BY_EXPERIMENT, large_cluster_trace
from pliant.simulation.metrics import RunSummary
from pliant.simulation.run import SimulationSettings, settings_with_policy_timing, simulate_trace

TODAY = SimulatedDelays(jitter=0.5)


@cache
def runs_of(experiment: str, policy: str, delays: SimulatedDelays, number: int = 4) -> tuple[RunSummary, ...]:
    trace = TRACE_FACTORY_BY_EXPERIMENT[experiment](Random(1), None)
    settings = [
        settings_with_policy_timing(policy, trace, SimulationSettings(delays=delays, seed=seed))
        for seed in range(number)
    ]
    return tuple(simulate_trace(trace, SIMULATION_POLICIES.get(policy), each).summary for each in settings)


@pytest.mark.parametrize("delays", [TODAY, EDL_DELAYS], ids=["delays of today", "delays as published"])
@pytest.mark.parametrize("policy", SELECTABLE_POLICIES)
def test_newcomers_are_let_in_and_all_have_their_share(policy: str, delays: SimulatedDelays) -> None:
    runs = runs_of("edl-1", policy, delays)
    assert fmean(run.pending_mean for run in runs) <= 20.0
    assert [run.never_started_jobs for run in runs] == [0] * len(runs)
    assert min(run.jain_plateau for run in runs) >= 0.95
    assert fmean(run.cpu_utilization_plateau for run in runs) >= 0.895


@pytest.mark.parametrize("delays", [TODAY, EDL_DELAYS], ids=["delays of today", "delays as published"])
@pytest.mark.parametrize("policy", SELECTABLE_POLICIES)
def test_training_takes_what_a_service_leaves(policy: str, delays: SimulatedDelays) -> None:
    runs = runs_of("edl-2", policy, delays)
    assert fmean(run.cpu_utilization_mean for run in runs) >= 0.88
    assert [run.service_pods_pending for run in runs] == [0] * len(runs)


@pytest.mark.parametrize("policy", SELECTABLE_POLICIES)
def test_training_gives_way_to_a_service_within_one_round(policy: str) -> None:
    # A pod that does not fit waits for a round, for those who leave, for the scheduler, and for its own start.
    delays = SimulatedDelays()
    figures = _run_with("edl-2", policy, delays)
    assert figures.service_pod_wait_max <= 5.0 + delays.schedule + delays.terminate + delays.reschedule + delays.start


def _run_with(experiment: str, policy: str, delays: SimulatedDelays) -> RunSummary:
    trace = TRACE_FACTORY_BY_EXPERIMENT[experiment](Random(1), None)
    return simulate_trace(
        trace,
        SIMULATION_POLICIES.get(policy),
        settings_with_policy_timing(policy, trace, SimulationSettings(delays=delays)),
    ).summary


def test_the_published_autoscaler_does_what_was_published_of_it() -> None:
    runs = runs_of("edl-1", "edl-published", EDL_DELAYS, 10)
    assert fmean(run.pending_mean for run in runs) == pytest.approx(47.2, abs=8.0)
    assert {run.never_started_jobs for run in runs} == {0, 1, 2, 3}
    assert fmean(run.jain_plateau for run in runs) == pytest.approx(0.44, abs=0.07)
    assert fmean(run.cpu_utilization_plateau for run in runs) == pytest.approx(0.86, abs=0.05)


def test_without_an_autoscaler_six_jobs_run_and_fourteen_wait_as_was_published() -> None:
    figures = _run_with("edl-1", "none", SimulatedDelays())
    assert (figures.jobs, figures.never_started_jobs) == (20, 14)
    assert figures.pending_mean == pytest.approx(308.5, abs=15.0)


def test_the_published_cluster_has_its_nodes_cores_and_memory() -> None:
    nodes = TRACE_FACTORY_BY_EXPERIMENT["edl-1"](Random(1), None).nodes
    assert sum(each.count for each in nodes) == 133
    assert sum(each.count * each.allocatable["cpu"] for each in nodes) == 2_348_000
    assert sum(each.count * each.allocatable["memory"] for each in nodes) == 13_665_210 * 10**6


def test_a_large_trace_follows_from_its_seed() -> None:
    assert large_cluster_trace(Random(5), 50) == large_cluster_trace(Random(5), 50)
    assert large_cluster_trace(Random(5), 50) != large_cluster_trace(Random(6), 50)


def test_many_jobs_on_ten_thousand_nodes_all_end() -> None:
    trace = large_cluster_trace(Random(1), 40)
    figures = simulate_trace(
        trace, SIMULATION_POLICIES["fair"], settings_with_policy_timing("fair", trace, SimulationSettings())
    ).summary
    assert (figures.completed_jobs, figures.never_started_jobs) == (40, 0)
