"""Runs a trace under a policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pliant.autoscale.model import Policy
from pliant.autoscale.policies.published_edl import PublishedEdlPolicy
from pliant.simulation.autoscaler import SimulatedAutoscaler, SimulatedAutoscalerSettings
from pliant.simulation.cluster import SimulatedCluster
from pliant.simulation.delays import SimulatedDelays
from pliant.simulation.metrics import RunSummary, RunTimeSeries, summarize_run
from pliant.simulation.trace import SimulationTrace

NO_POLICY_NAME = "none"  # the name for a run without autoscaling
TARGET_SERIES_POINTS = 600  # the approximate number of samples of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    delays: SimulatedDelays = field(default_factory=SimulatedDelays)
    timing: SimulatedAutoscalerSettings = field(default_factory=SimulatedAutoscalerSettings)
    is_bin_packing: bool = False  # whether the scheduler fills nodes one by one instead of spreading pods
    seed: int = 1  # seeds the random jitter of delays
    sample_interval: float | None = None  # seconds between two samples; by default derived from the length of the trace


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    summary: RunSummary
    series: RunTimeSeries
    resize_counts: dict[str, int]  # resizes by reason
    planning_seconds: float  # the time spent planning, by the stopwatch


def simulate_trace(
    trace: SimulationTrace,
    policy: Policy | None,
    settings: SimulationSettings,
    *,
    stopwatch: Callable[[], float] = lambda: 0.0,
    on_progress: Callable[[float, int], None] = lambda now, ended: None,
) -> SimulationResult:
    """Simulate a trace; without a policy sizes do not change. `on_progress` gets the time and the completed jobs."""
    seed, is_bin_packing, is_autoscaled = settings.seed, settings.is_bin_packing, policy is not None
    cluster = SimulatedCluster(
        trace, settings.delays, seed=seed, is_bin_packing=is_bin_packing, is_autoscaled=is_autoscaled
    )
    autoscaler = SimulatedAutoscaler(cluster, policy, settings.timing, stopwatch) if policy else None
    series = _sample_run(cluster, trace, settings.sample_interval or default_sample_interval(trace), on_progress)
    name, rounds = policy.name if policy else NO_POLICY_NAME, autoscaler.round_count if autoscaler else 0
    return SimulationResult(
        summary=summarize_run(name, cluster, series, trace.windows, rounds),
        series=series,
        resize_counts=dict(sorted(autoscaler.resize_counts.items())) if autoscaler else {},
        planning_seconds=autoscaler.planning_seconds if autoscaler else 0.0,
    )


def _sample_run(
    cluster: SimulatedCluster, trace: SimulationTrace, sample_interval: float, on_progress: Callable[[float, int], None]
) -> RunTimeSeries:
    series = RunTimeSeries()
    series.append_sample(cluster)
    time = 0.0
    while time < trace.end_at:
        # Skip times without events; double the interval in very long runs.
        next_event = cluster.event_queue.next_event_at
        time = min(max(time + sample_interval, next_event if next_event < math.inf else 0.0), trace.end_at)
        has_events = cluster.event_queue.run_until(time)
        if has_events or trace.end_at < math.inf:
            cluster.event_queue.now = time
        series.append_sample(cluster)
        if len(series.times) % (4 * TARGET_SERIES_POINTS) == 0:
            sample_interval *= 2
        on_progress(time, len(cluster.jobs) - len(cluster.live_jobs))
        if trace.end_at == math.inf and (not has_events or (trace.jobs and cluster.are_all_jobs_finished)):
            break
    return series


def settings_with_policy_timing(
    policy_name: str, trace: SimulationTrace, settings: SimulationSettings
) -> SimulationSettings:
    """Return the settings for a policy: the published one has no cooldowns and counts terminating pods."""
    timing = replace(settings.timing, period=trace.period, urgent_period=trace.urgent_period)
    if policy_name == PublishedEdlPolicy().name:
        timing = replace(timing, urgent_period=trace.period, cooldowns=None, counts_terminating_pods=True)
    return replace(settings, timing=timing)


def default_sample_interval(trace: SimulationTrace) -> float:
    last_submission = max((job.submitted_at for job in trace.jobs), default=0.0)
    duration = trace.end_at if trace.end_at < math.inf else last_submission
    return float(max(1, round(duration / TARGET_SERIES_POINTS)))
