"""How fast a job is with so many workers, measured only while nothing changes.

A window begins some time after the set of workers changed and all of them have been heard of. It ends when it has
lasted long enough and everybody who counts samples has moved on often enough. Its speed is the sum of what each
process did between its first and its last move in it, by the times of these moves: a step of half a minute is
measured as well as one of a millisecond.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

MAX_WINDOWS_KEPT = 5
"""Windows that are kept for each number of workers: the latest."""
MIN_UPDATES_PER_WINDOW = 3
"""How often a process must have moved on in a window."""
SLOW_WINDOW_FACTOR = 20
"""Windows in whose time a process should have moved on so often."""
MAX_WORKER_COUNTS = 2000


@dataclass(slots=True)
class _ProcessThroughput:
    """What one process did in a window."""

    samples: float
    first: tuple[float, float] | None = None
    last: tuple[float, float] = (0.0, 0.0)
    updates: int = 0

    def record_samples(self, samples: float, now: float) -> None:
        if samples == self.samples:
            return
        grown = self.last[1] + (samples - self.samples if samples > self.samples else samples)
        self.samples = samples  # one that is less than before counts from zero: the process began again
        self.last = (now, grown)
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
    """Samples per second of all workers together, by how many there are."""

    def __init__(self, settle_seconds: float, window_seconds: float) -> None:
        self._settle_seconds = settle_seconds
        self._window_seconds = window_seconds
        self._workers: frozenset[Hashable] = frozenset()
        self._unreported: set[Hashable] = set()
        self._window_start: float | None = None
        """When the window begins; None while somebody has not been heard of."""
        self._processes: dict[Hashable, _ProcessThroughput] = {}
        self._is_measuring = False
        self._window_speeds: dict[int, list[float]] = {}

    def set_workers(self, workers: frozenset[Hashable], now: float) -> None:
        """Tell who runs; a change ends the window."""
        if workers == self._workers:
            return
        self._workers, self._unreported = workers, set(workers)
        self._processes = {}
        self._is_measuring = False
        self._window_start = None

    def record_samples(self, worker: Hashable, process: Hashable, samples: float | None, now: float) -> None:
        """Take down what a process of a worker has learned, all in all."""
        if worker not in self._workers:
            return
        if worker in self._unreported:
            self._unreported.discard(worker)
            if not self._unreported:
                self._window_start = now + self._settle_seconds
        if samples is not None:
            track = self._processes.get(process)
            if track is None:
                self._processes[process] = _ProcessThroughput(samples)
            else:
                track.record_samples(samples, now)

    def update_window(self, now: float) -> bool:
        """Begin or end a window if it is time; tells whether there is a new measurement."""
        if self._window_start is None or now < self._window_start:
            return False
        if not self._is_measuring:
            for track in self._processes.values():
                track.reset()
            self._is_measuring, self._window_start = True, now
            return False
        moving = [track for track in self._processes.values() if track.updates]
        if not moving or not self._is_long_enough(now - self._window_start, min(track.updates for track in moving)):
            return False
        self._add_window(len(self._workers), sum(track.speed for track in moving))
        for track in self._processes.values():
            track.reset()
        self._window_start = now
        return True

    def _is_long_enough(self, lasted: float, updates: int) -> bool:
        # One that stopped in the middle is not waited for: that the job is slower with it is a measurement, too.
        return lasted >= (
            self._window_seconds if updates >= MIN_UPDATES_PER_WINDOW else SLOW_WINDOW_FACTOR * self._window_seconds
        )

    def _add_window(self, worker_count: int, speed: float) -> None:
        if worker_count in self._window_speeds or len(self._window_speeds) < MAX_WORKER_COUNTS:
            self._window_speeds[worker_count] = [*self._window_speeds.get(worker_count, []), float(f"{speed:.6g}")][
                -MAX_WINDOWS_KEPT:
            ]

    def median_speed_by_workers(self) -> dict[int, float]:
        """What was measured, by the number of workers."""
        return {count: median(speeds) for count, speeds in sorted(self._window_speeds.items())}

    def dump_state(self) -> dict[str, Any]:
        """What was measured as a small JSON value."""
        return {str(count): speeds for count, speeds in self._window_speeds.items()}

    def load_state(self, state: Mapping[str, list[float]]) -> None:
        """Go on where another was saved."""
        self._window_speeds = {int(count): list(speeds) for count, speeds in state.items()}
