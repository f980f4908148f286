"""What is told of a simulated run: series to draw, and figures to compare."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import mul

from pliant.simulation.crews import JobRun
from pliant.simulation.trace import Window
from pliant.simulation.world import World

PLATEAU = "plateau"
MOST_LINES = 60
"""Jobs whose sizes are kept for drawing; of more nobody could tell the lines apart."""


def jain(amounts: Sequence[int]) -> float:
    """Jain's index of fairness: 1 when all have the same, 1/n when one has everything."""
    squares = sum(amount * amount for amount in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if squares else 1.0


@dataclass(slots=True)
class Series:
    """How things were at each look."""

    times: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)
    """The part of all CPU that pods had which ran."""
    area: list[float] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    fairness: list[float] = field(default_factory=list)
    counts: dict[str, list[int]] = field(default_factory=dict)
    """How many members of each job ran, from its first look on."""
    begins: dict[str, int] = field(default_factory=dict)

    def look(self, world: World) -> None:
        """Write down how things are now."""
        tally = world.tally
        held = [job.members.running for job in world.live]
        self.times.append(world.agenda.now)
        self.used.append(tally.used / tally.total if tally.total else 0.0)
        self.area.append(tally.area)
        self.waiting.append(world.pods.waiting)
        self.jobs.append(len(held))
        self.fairness.append(jain(held) if held else 1.0)
        for job in world.jobs[:MOST_LINES]:
            name = job.spec.name
            self.begins.setdefault(name, len(self.times) - 1)
            self.counts.setdefault(name, []).append(job.members.running)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
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


def figures(policy: str, world: World, series: Series, windows: Iterable[Window], rounds: int) -> Figures:
    """The numbers of a run that is over."""
    end = series.times[-1]
    known = {window.name: window for window in windows if window.start < end}
    plateau = known.pop(PLATEAU, Window(name=PLATEAU, start=end / 4, end=end * 3 / 4))
    pending = [_pending(job, end) for job in world.jobs]
    ended = [job.ended_at - job.spec.submit for job in world.jobs if job.ended_at is not None]
    tally = world.tally
    return Figures(
        policy=policy,
        jobs=len(world.jobs),
        ended=len(ended),
        stuck=sum(job.started_at is None for job in world.jobs),
        pending_mean=_mean(pending),
        pending_max=max(pending, default=0.0),
        completion_mean=_mean(ended) if ended else None,
        used_mean=_used(series, tally.total, 0.0, end),
        used_plateau=_used(series, tally.total, plateau.start, plateau.end),
        used_windows={
            window.name: _used(series, tally.total, window.start, window.end) for window in known.values()
        },
        jain_plateau=_fairness(series, plateau),
        resizes=sum(job.resizes for job in world.jobs),
        services_wait_mean=tally.services_wait / tally.services_served if tally.services_served else 0.0,
        services_wait_max=tally.longest_service_wait,
        services_waiting=sum(crew.waiting for crew in world.services),
        seconds=end,
        rounds=rounds,
    )


def _pending(job: JobRun, end: float) -> float:
    return (end if job.started_at is None else job.started_at) - job.spec.submit


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _fairness(series: Series, window: Window) -> float:
    """The mean over a stretch of time, while there were jobs: each look stands for the time until the next."""
    weights = [
        max(min(after, window.end) - max(time, window.start), 0.0) if jobs else 0.0
        for time, after, jobs in zip(series.times, series.times[1:], series.jobs, strict=False)
    ]
    total = sum(weights)
    return sum(map(mul, weights, series.fairness)) / total if total else 1.0


def _used(series: Series, total: int, start: float, end: float) -> float:
    """The mean over a stretch of time."""
    end = min(end, series.times[-1])
    if end <= start or not total:
        return 0.0
    return (_area(series, end) - _area(series, start)) / (end - start) / total


def _area(series: Series, time: float) -> float:
    """What was in use up to then: exact at looks, and where nothing happened in between."""
    at = bisect_right(series.times, time)
    if at == len(series.times):
        return series.area[-1]
    if not at:
        return 0.0
    before, after = series.times[at - 1], series.times[at]
    part = (time - before) / (after - before) if after > before else 0.0
    return series.area[at - 1] + (series.area[at] - series.area[at - 1]) * part
