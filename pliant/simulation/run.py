"""Runs a trace under a policy from its beginning to its end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pliant.autoscale.model import Policy
from pliant.autoscale.policies.published_edl import PublishedEdlPolicy
from pliant.simulation.autoscaler import AutoscalerTiming, SimulatedAutoscaler
from pliant.simulation.cluster import SimulatedCluster
from pliant.simulation.delays import SimulatedDelays
from pliant.simulation.metrics import RunSummary, RunTimeSeries, summarize_run
from pliant.simulation.trace import SimulationTrace

NO_POLICY = "none"
"""The policy under which nobody scales anything."""
TARGET_SAMPLES = 600
"""How many looks a run is drawn from, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """How a cluster behaves."""

    delays: SimulatedDelays = field(default_factory=SimulatedDelays)
    timing: AutoscalerTiming = field(default_factory=AutoscalerTiming)
    is_bin_packing: bool = False
    """Whether the scheduler fills nodes one after the other, in place of spreading pods."""
    seed: int = 1
    """What chance follows from, where delays vary."""
    sample_interval: float | None = None
    """Seconds between two looks; otherwise chosen by how long the trace is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """What came of it."""

    summary: RunSummary
    series: RunTimeSeries
    resize_counts: dict[str, int]
    """How often sizes were changed, by the kind of reason."""
    planning_seconds: float
    """Seconds that planning took, by the stopwatch."""


def simulate(
    trace: SimulationTrace,
    policy: Policy | None,
    settings: SimulationSettings,
    *,
    stopwatch: Callable[[], float] = lambda: 0.0,
    on_progress: Callable[[float, int], None] = lambda now, ended: None,
) -> SimulationResult:
    """Run it; without a policy sizes stay as they are. `tell` hears of the time and of jobs that have ended."""
    world = SimulatedCluster(
        trace,
        settings.delays,
        seed=settings.seed,
        is_bin_packing=settings.is_bin_packing,
        is_autoscaled=policy is not None,
    )
    rounds = SimulatedAutoscaler(world, policy, settings.timing, stopwatch) if policy else None
    series = _sample_run(world, trace, settings.sample_interval or default_sample_interval(trace), on_progress)
    return SimulationResult(
        summary=summarize_run(
            policy.name if policy else NO_POLICY, world, series, trace.windows, rounds.round_count if rounds else 0
        ),
        series=series,
        resize_counts=dict(sorted(rounds.resize_counts.items())) if rounds else {},
        planning_seconds=rounds.planning_seconds if rounds else 0.0,
    )


def _sample_run(
    cluster: SimulatedCluster, trace: SimulationTrace, sample_interval: float, on_progress: Callable[[float, int], None]
) -> RunTimeSeries:
    """Let it go on until it is over, and write down how things are."""
    series = RunTimeSeries()
    series.sample(cluster)
    time = 0.0
    while time < trace.end_at:
        # Where nothing happens there is nothing to see; and of what goes on for long, less and less often.
        soonest = cluster.event_queue.next_event_at
        time = min(max(time + sample_interval, soonest if soonest < math.inf else 0.0), trace.end_at)
        goes_on = cluster.event_queue.run_until(time)
        if goes_on or trace.end_at < math.inf:
            cluster.event_queue.now = time
        series.sample(cluster)
        if len(series.times) % (4 * TARGET_SAMPLES) == 0:
            sample_interval *= 2
        on_progress(time, len(cluster.jobs) - len(cluster.live_jobs))
        if trace.end_at == math.inf and (not goes_on or (trace.jobs and cluster.is_finished)):
            break
    return series


def settings_for_policy(policy_name: str, trace: SimulationTrace, settings: SimulationSettings) -> SimulationSettings:
    """How a policy is run: what was published has neither pace nor haste, and counts pods until they are gone."""
    rhythm = replace(settings.timing, period=trace.period, urgent_period=trace.urgent_period)
    if policy_name == PublishedEdlPolicy().name:
        rhythm = replace(rhythm, urgent_period=trace.period, cooldowns=None, counts_terminating=True)
    return replace(settings, timing=rhythm)


def default_sample_interval(trace: SimulationTrace) -> float:
    """Whole seconds between two looks: about as many looks as a picture is wide."""
    last = max((job.submitted_at for job in trace.jobs), default=0.0)
    span = trace.end_at if trace.end_at < math.inf else last
    return float(max(1, round(span / TARGET_SAMPLES)))
