"""Measures a simulated run: time series for charts, and summary figures."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import mul

from pliant.simulation.cluster import SimulatedCluster
from pliant.simulation.trace import MeasurementWindow
from pliant.simulation.workloads import SimulatedJob

PLATEAU_WINDOW_NAME = "plateau"
MAX_PLOTTED_JOBS = 60  # jobs whose sizes are recorded for the chart; with more, lines are indistinguishable


def jain_index(amounts: Sequence[int]) -> float:
    """Return Jain's fairness index: 1 if all amounts are equal, 1/n if one has everything."""
    squares = sum(amount * amount for amount in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if squares else 1.0


@dataclass(slots=True)
class RunTimeSeries:
    times: list[float] = field(default_factory=list)
    cpu_utilization: list[float] = field(default_factory=list)  # the fraction of total CPU that running pods request
    used_millicore_seconds: list[float] = field(default_factory=list)
    pending_pods: list[int] = field(default_factory=list)
    live_jobs: list[int] = field(default_factory=list)
    fairness: list[float] = field(default_factory=list)
    running_by_job: dict[str, list[int]] = field(default_factory=dict)
    """The number of running replicas of each job, from its first sample on."""
    first_sample_by_job: dict[str, int] = field(default_factory=dict)

    def append_sample(self, cluster: SimulatedCluster) -> None:
        usage = cluster.usage
        running = [job.replicas.running_count for job in cluster.live_jobs]
        self.times.append(cluster.event_queue.now)
        self.cpu_utilization.append(usage.used_cpu / usage.total_cpu if usage.total_cpu else 0.0)
        self.used_millicore_seconds.append(usage.used_millicore_seconds)
        self.pending_pods.append(cluster.pods.pending_count)
        self.live_jobs.append(len(running))
        self.fairness.append(jain_index(running) if running else 1.0)
        for job in cluster.jobs[:MAX_PLOTTED_JOBS]:
            name = job.spec.name
            self.first_sample_by_job.setdefault(name, len(self.times) - 1)
            self.running_by_job.setdefault(name, []).append(job.replicas.running_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The figures of a run; times in seconds, utilization and fairness as fractions."""

    policy: str
    jobs: int
    completed_jobs: int
    never_started_jobs: int  # jobs without a running replica until the end
    pending_mean: float  # from submission until the first replica runs; until the end for jobs that never start
    pending_max: float
    completion_mean: float | None  # from submission to completion, over completed jobs
    cpu_utilization_mean: float
    cpu_utilization_plateau: float
    cpu_utilization_windows: dict[str, float]
    jain_plateau: float
    resizes: int
    service_pod_wait_mean: float
    service_pod_wait_max: float
    service_pods_pending: int  # service pods that are pending at the end
    duration_seconds: float  # the simulated duration of the run
    planning_rounds: int = 0


def summarize_run(
    policy_name: str,
    cluster: SimulatedCluster,
    series: RunTimeSeries,
    windows: Iterable[MeasurementWindow],
    planning_rounds: int,
) -> RunSummary:
    end = series.times[-1]
    by_name = {window.name: window for window in windows if window.start < end}
    plateau = by_name.pop(
        PLATEAU_WINDOW_NAME, MeasurementWindow(name=PLATEAU_WINDOW_NAME, start=end / 4, end=end * 3 / 4)
    )
    pending = [_pending_seconds(job, end) for job in cluster.jobs]
    completion_times = [job.ended_at - job.spec.submitted_at for job in cluster.jobs if job.ended_at is not None]
    usage = cluster.usage
    return RunSummary(
        policy=policy_name,
        jobs=len(cluster.jobs),
        completed_jobs=len(completion_times),
        never_started_jobs=sum(job.started_at is None for job in cluster.jobs),
        pending_mean=_mean(pending),
        pending_max=max(pending, default=0.0),
        completion_mean=_mean(completion_times) if completion_times else None,
        cpu_utilization_mean=_mean_utilization(series, usage.total_cpu, 0.0, end),
        cpu_utilization_plateau=_mean_utilization(series, usage.total_cpu, plateau.start, plateau.end),
        cpu_utilization_windows={
            window.name: _mean_utilization(series, usage.total_cpu, window.start, window.end)
            for window in by_name.values()
        },
        jain_plateau=_mean_fairness(series, plateau),
        resizes=sum(job.resize_count for job in cluster.jobs),
        service_pod_wait_mean=usage.total_service_wait / max(usage.started_service_pods, 1),
        service_pod_wait_max=usage.max_service_wait,
        service_pods_pending=sum(pod_set.pending_count for pod_set in cluster.services),
        duration_seconds=end,
        planning_rounds=planning_rounds,
    )


def _pending_seconds(job: SimulatedJob, end: float) -> float:
    return (end if job.started_at is None else job.started_at) - job.spec.submitted_at


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _mean_fairness(series: RunTimeSeries, window: MeasurementWindow) -> float:
    """Return the time-weighted mean over a window, while there were jobs."""
    weights = [
        max(min(after, window.end) - max(time, window.start), 0.0) if jobs else 0.0
        for time, after, jobs in zip(series.times, series.times[1:], series.live_jobs, strict=False)
    ]
    total = sum(weights)
    return sum(map(mul, weights, series.fairness)) / total if total else 1.0


def _mean_utilization(series: RunTimeSeries, total_cpu: int, start: float, end: float) -> float:
    end = min(end, series.times[-1])
    if end <= start or not total_cpu:
        return 0.0
    return (_cpu_seconds_until(series, end) - _cpu_seconds_until(series, start)) / (end - start) / total_cpu


def _cpu_seconds_until(series: RunTimeSeries, time: float) -> float:
    index = bisect_right(series.times, time)
    if index == len(series.times):
        return series.used_millicore_seconds[-1]
    if not index:
        return 0.0
    before, after = series.times[index - 1], series.times[index]
    fraction = (time - before) / (after - before) if after > before else 0.0
    return (
        series.used_millicore_seconds[index - 1]
        + (series.used_millicore_seconds[index] - series.used_millicore_seconds[index - 1]) * fraction
    )
