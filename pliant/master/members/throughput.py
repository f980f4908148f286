"""Measures the speed of a job by number of workers, while the set of workers does not change.

A window begins some time after the set of workers has changed and all of them have reported. It ends when it has
lasted long enough and every process that counts samples has reported enough new ones. Its speed is the sum over
processes of the samples between the first and the last update, divided by the time between these updates: this
measures a step of half a minute as well as one of a millisecond.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

MAX_KEPT_WINDOW_SPEEDS = 5
MIN_UPDATES_PER_WINDOW = 3  # number of updates that each process needs in a window
MAX_WINDOW_STRETCH_FACTOR = 20  # a window with fewer updates ends after this many window times
MAX_MEASURED_WORKER_COUNTS = 2000


@dataclass(slots=True)
class _ProcessThroughput:
    samples: float
    first: tuple[float, float] | None = None
    last: tuple[float, float] = (0.0, 0.0)
    updates: int = 0

    def record_samples(self, samples: float, now: float) -> None:
        if samples == self.samples:
            return
        total = self.last[1] + (samples - self.samples if samples > self.samples else samples)
        self.samples = samples  # a smaller value means that the process restarted: it counts from zero
        self.last = (now, total)
        self.updates += 1
        if self.first is None:
            self.first = self.last

    def reset(self) -> None:
        self.first, self.last, self.updates = None, (0.0, 0.0), 0

    @property
    def speed(self) -> float:
        if self.first is None or self.last[0] <= self.first[0]:
            return 0.0
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])


class ThroughputMeter:
    """Samples per second of all workers, by number of workers."""

    def __init__(self, settle_seconds: float, window_seconds: float) -> None:
        self._settle_seconds = settle_seconds
        self._window_seconds = window_seconds
        self._workers: frozenset[Hashable] = frozenset()
        self._unreported: set[Hashable] = set()
        self._window_start: float | None = None  # None until all workers have reported
        self._processes: dict[Hashable, _ProcessThroughput] = {}
        self._is_measuring = False
        self._window_speeds: dict[int, list[float]] = {}

    def set_workers(self, workers: frozenset[Hashable], now: float) -> None:
        """Set the running workers; a change ends the window."""
        if workers == self._workers:
            return
        self._workers, self._unreported = workers, set(workers)
        self._processes = {}
        self._is_measuring = False
        self._window_start = None

    def record_samples(self, worker: Hashable, process: Hashable, samples: float | None, now: float) -> None:
        if worker not in self._workers:
            return
        if worker in self._unreported:
            self._unreported.discard(worker)
            if not self._unreported:
                self._window_start = now + self._settle_seconds
        if samples is not None:
            measured = self._processes.get(process)
            if measured is None:
                self._processes[process] = _ProcessThroughput(samples)
            else:
                measured.record_samples(samples, now)

    def update_window(self, now: float) -> bool:
        """Begin or end a window if it is time; return whether there is a new measurement."""
        if self._window_start is None or now < self._window_start:
            return False
        if not self._is_measuring:
            for measured in self._processes.values():
                measured.reset()
            self._is_measuring, self._window_start = True, now
            return False
        active = [measured for measured in self._processes.values() if measured.updates]
        # A process that stopped in the window is not waited for: the lower speed is a valid measurement.
        is_slow = any(measured.updates < MIN_UPDATES_PER_WINDOW for measured in active)
        min_seconds = self._window_seconds * (MAX_WINDOW_STRETCH_FACTOR if is_slow else 1)
        if not active or now - self._window_start < min_seconds:
            return False
        count, speed = len(self._workers), float(f"{sum(measured.speed for measured in active):.6g}")
        if count in self._window_speeds or len(self._window_speeds) < MAX_MEASURED_WORKER_COUNTS:
            self._window_speeds[count] = [*self._window_speeds.get(count, []), speed][-MAX_KEPT_WINDOW_SPEEDS:]
        for measured in self._processes.values():
            measured.reset()
        self._window_start = now
        return True

    def speed_by_worker_count(self) -> dict[int, float]:
        return {count: median(speeds) for count, speeds in sorted(self._window_speeds.items())}

    def dump_state(self) -> dict[str, Any]:
        return {str(count): speeds for count, speeds in self._window_speeds.items()}

    def load_state(self, state: Mapping[str, list[float]]) -> None:
        self._window_speeds = {int(count): list(speeds) for count, speeds in state.items()}
