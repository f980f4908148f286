"""Tracks the recent progress of a run: losses, the step rate and the remaining time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pliant.cli.output.progress import TrainingProgress, parse_progress_line
from pliant.model.job import JobKey

MAX_TREND_VALUES = 16
VALUE_INTERVAL_SECONDS = 0.1  # of the values within one interval, the last one is kept
RATE_INTERVAL_SECONDS = 0.5  # steps that arrive together, as those before a log is opened, count as one
RATE_WINDOW_SECONDS = 30.0
MIN_RATE_POINTS = 3  # also kept beyond the window, for programs with long steps
MIN_RATE_SECONDS = 1.0  # a rate over less time says little
REPORTER_TIMEOUT_SECONDS = 10.0  # a replica that is silent for longer than others is not used any more


@dataclass(frozen=True, slots=True)
class ProgressTrend:
    """How the progress of a group has changed recently."""

    values: tuple[float, ...] = ()  # of the loss, the latest last
    steps_per_second: float | None = None  # None until it is meaningful
    seconds_left: float | None = None


NO_TREND = ProgressTrend()


class _StepPoint(NamedTuple):
    at: float
    step: int


class _ReplicaTrend:
    """The recent reports of one replica."""

    def __init__(self) -> None:
        self.last_at = 0.0
        self._values: deque[float] = deque(maxlen=MAX_TREND_VALUES)
        self._value_at = float("-inf")
        self._points: deque[_StepPoint] = deque()

    def record(self, progress: TrainingProgress, at: float) -> None:
        self.last_at = at
        if progress.main_metric is not None:
            _, value = progress.main_metric
            if self._values and at - self._value_at < VALUE_INTERVAL_SECONDS:
                self._values[-1] = value
            else:
                self._values.append(value)
                self._value_at = at
        if progress.step is not None:
            self._record_step(_StepPoint(at, progress.step))

    def _record_step(self, point: _StepPoint) -> None:
        points = self._points
        if points and point.step < points[-1].step:
            points.clear()  # a restart fell back to an earlier step
        if points and points[-1].at // RATE_INTERVAL_SECONDS == point.at // RATE_INTERVAL_SECONDS:
            points.pop()
        points.append(point)
        while len(points) > MIN_RATE_POINTS and point.at - points[1].at > RATE_WINDOW_SECONDS:
            points.popleft()

    def snapshot(self, total: int | None) -> ProgressTrend:
        values = tuple(self._values)
        if len(self._points) < MIN_RATE_POINTS:
            return ProgressTrend(values)
        first, last = self._points[0], self._points[-1]
        seconds, steps = last.at - first.at, last.step - first.step
        if seconds < MIN_RATE_SECONDS or steps <= 0:
            return ProgressTrend(values)
        rate = steps / seconds
        return ProgressTrend(values, rate, max(total - last.step, 0) / rate if total else None)


class _GroupTrend:
    """Records the progress of the replicas of a group; the lowest rank that reports stands for all of them."""

    def __init__(self) -> None:
        self._trends: dict[int, _ReplicaTrend] = {}

    def record(self, rank: int, progress: TrainingProgress, at: float) -> None:
        self._trends.setdefault(rank, _ReplicaTrend()).record(progress, at)

    def snapshot(self, total: int | None) -> ProgressTrend:
        """Return the trend; replicas may be at different steps, so that of one replica counts."""
        latest = max(trend.last_at for trend in self._trends.values())
        rank = min(rank for rank, trend in self._trends.items() if latest - trend.last_at <= REPORTER_TIMEOUT_SECONDS)
        return self._trends[rank].snapshot(total)


class RunProgress:
    """The progress of each group of a run, from the lines that its replicas print."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._latest: dict[tuple[JobKey, str], TrainingProgress] = {}
        self._trends: dict[tuple[JobKey, str], _GroupTrend] = {}

    def record_line(self, job: JobKey, group: str, rank: int, line: str) -> bool:
        """Record the progress that a line reports; return whether it reports any."""
        progress = parse_progress_line(line, self._latest.get((job, group)))
        if progress is None:
            return False
        self._latest[job, group] = progress
        self._trends.setdefault((job, group), _GroupTrend()).record(rank, progress, self._clock())
        return True

    def latest(self, job: JobKey, group: str) -> TrainingProgress | None:
        return self._latest.get((job, group))

    def trend(self, job: JobKey, group: str) -> ProgressTrend:
        progress, trend = self._latest.get((job, group)), self._trends.get((job, group))
        return trend.snapshot(progress.total) if progress is not None and trend is not None else NO_TREND
