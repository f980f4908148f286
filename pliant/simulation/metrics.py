"""What is told of a simulated run: series to draw, and figures to compare."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import mul

from pliant.simulation.cluster import SimulatedCluster
from pliant.simulation.trace import MeasurementWindow
from pliant.simulation.workloads import SimulatedJob

PLATEAU_WINDOW = "plateau"
MAX_PLOTTED_JOBS = 60
"""Jobs whose sizes are kept for drawing; of more nobody could tell the lines apart."""


def jain_index(amounts: Sequence[int]) -> float:
    """Jain's index of fairness: 1 when all have the same, 1/n when one has everything."""
    squares = sum(amount * amount for amount in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if squares else 1.0


@dataclass(slots=True)
class RunTimeSeries:
    """How things were at each look."""

    times: list[float] = field(default_factory=list)
    cpu_utilization: list[float] = field(default_factory=list)
    """The part of all CPU that pods had which ran."""
    cpu_seconds: list[float] = field(default_factory=list)
    pending_pods: list[int] = field(default_factory=list)
    live_jobs: list[int] = field(default_factory=list)
    fairness: list[float] = field(default_factory=list)
    running_by_job: dict[str, list[int]] = field(default_factory=dict)
    """How many members of each job ran, from its first look on."""
    first_sample_by_job: dict[str, int] = field(default_factory=dict)

    def sample(self, cluster: SimulatedCluster) -> None:
        """Write down how things are now."""
        tally = cluster.usage
        held = [job.replicas.running_count for job in cluster.live_jobs]
        self.times.append(cluster.event_queue.now)
        self.cpu_utilization.append(tally.used_cpu / tally.total_cpu if tally.total_cpu else 0.0)
        self.cpu_seconds.append(tally.cpu_seconds)
        self.pending_pods.append(cluster.pods.pending_count)
        self.live_jobs.append(len(held))
        self.fairness.append(jain_index(held) if held else 1.0)
        for job in cluster.jobs[:MAX_PLOTTED_JOBS]:
            name = job.spec.name
            self.first_sample_by_job.setdefault(name, len(self.times) - 1)
            self.running_by_job.setdefault(name, []).append(job.replicas.running_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run in numbers; times in seconds, use and fairness as parts of 1."""

    policy: str
    jobs: int
    ended: int
    stuck: int
    """Jobs of which no member had run when it was over."""
    pending_mean: float
    """From submission until the first member runs; who is stuck counts until the end."""
    pending_max: float
    completion_mean: float | None
    """From submission to the end, of those that ended."""
    used_mean: float
    used_plateau: float
    used_windows: dict[str, float]
    jain_plateau: float
    resizes: int
    services_wait_mean: float
    services_wait_max: float
    services_waiting: int
    """Pods of services that still wait when it is over."""
    seconds: float
    """How long the run lasted, by its own clock."""
    rounds: int = 0


def summarize_run(
    policy_name: str,
    cluster: SimulatedCluster,
    series: RunTimeSeries,
    windows: Iterable[MeasurementWindow],
    rounds: int,
) -> RunSummary:
    """The numbers of a run that is over."""
    end = series.times[-1]
    known = {window.name: window for window in windows if window.start < end}
    plateau = known.pop(PLATEAU_WINDOW, MeasurementWindow(name=PLATEAU_WINDOW, start=end / 4, end=end * 3 / 4))
    pending = [_pending_seconds(job, end) for job in cluster.jobs]
    ended = [job.ended_at - job.spec.submitted_at for job in cluster.jobs if job.ended_at is not None]
    tally = cluster.usage
    return RunSummary(
        policy=policy_name,
        jobs=len(cluster.jobs),
        ended=len(ended),
        stuck=sum(job.started_at is None for job in cluster.jobs),
        pending_mean=_mean(pending),
        pending_max=max(pending, default=0.0),
        completion_mean=_mean(ended) if ended else None,
        used_mean=_mean_utilization(series, tally.total_cpu, 0.0, end),
        used_plateau=_mean_utilization(series, tally.total_cpu, plateau.start, plateau.end),
        used_windows={
            window.name: _mean_utilization(series, tally.total_cpu, window.start, window.end)
            for window in known.values()
        },
        jain_plateau=_mean_fairness(series, plateau),
        resizes=sum(job.resize_count for job in cluster.jobs),
        services_wait_mean=tally.total_service_wait / tally.started_service_pods if tally.started_service_pods else 0.0,
        services_wait_max=tally.max_service_wait,
        services_waiting=sum(crew.pending_count for crew in cluster.services),
        seconds=end,
        rounds=rounds,
    )


def _pending_seconds(job: SimulatedJob, end: float) -> float:
    return (end if job.started_at is None else job.started_at) - job.spec.submitted_at


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _mean_fairness(series: RunTimeSeries, window: MeasurementWindow) -> float:
    """The mean over a stretch of time, while there were jobs: each look stands for the time until the next."""
    weights = [
        max(min(after, window.end) - max(time, window.start), 0.0) if jobs else 0.0
        for time, after, jobs in zip(series.times, series.times[1:], series.live_jobs, strict=False)
    ]
    total = sum(weights)
    return sum(map(mul, weights, series.fairness)) / total if total else 1.0


def _mean_utilization(series: RunTimeSeries, total_cpu: int, start: float, end: float) -> float:
    """The mean over a stretch of time."""
    end = min(end, series.times[-1])
    if end <= start or not total_cpu:
        return 0.0
    return (_cpu_seconds_until(series, end) - _cpu_seconds_until(series, start)) / (end - start) / total_cpu


def _cpu_seconds_until(series: RunTimeSeries, time: float) -> float:
    """What was in use up to then: exact at looks, and where nothing happened in between."""
    at = bisect_right(series.times, time)
    if at == len(series.times):
        return series.cpu_seconds[-1]
    if not at:
        return 0.0
    before, after = series.times[at - 1], series.times[at]
    part = (time - before) / (after - before) if after > before else 0.0
    return series.cpu_seconds[at - 1] + (series.cpu_seconds[at] - series.cpu_seconds[at - 1]) * part
