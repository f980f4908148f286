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

KEPT = 5
"""Windows that are kept for each number of workers: the latest."""
MOVES = 3
"""How often a process must have moved on in a window."""
LONGEST = 20
"""Windows in whose time a process should have moved on so often."""
MOST_COUNTS = 2000


@dataclass(slots=True)
class _Track:
    """What one process did in a window."""

    samples: float
    first: tuple[float, float] | None = None
    last: tuple[float, float] = (0.0, 0.0)
    moves: int = 0

    def note(self, samples: float, now: float) -> None:
        if samples == self.samples:
            return
        grown = self.last[1] + (samples - self.samples if samples > self.samples else samples)
        self.samples = samples  # one that is less than before counts from zero: the process began again
        self.last = (now, grown)
        self.moves += 1
        if self.first is None:
            self.first = self.last

    def begin(self) -> None:
        self.first, self.last, self.moves = None, (0.0, 0.0), 0

    @property
    def speed(self) -> float:
        if self.first is None or self.last[0] <= self.first[0]:
            return 0.0
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])


class Speeds:
    """Samples per second of all workers together, by how many there are."""

    def __init__(self, settle: float, window: float) -> None:
        self._settle = settle
        self._window = window
        self._workers: frozenset[Hashable] = frozenset()
        self._unheard: set[Hashable] = set()
        self._began: float | None = None
        """When the window begins; None while somebody has not been heard of."""
        self._tracks: dict[Hashable, _Track] = {}
        self._is_measuring = False
        self._kept: dict[int, list[float]] = {}

    def set_workers(self, workers: frozenset[Hashable], now: float) -> None:
        """Tell who runs; a change ends the window."""
        if workers == self._workers:
            return
        self._workers, self._unheard = workers, set(workers)
        self._tracks = {}
        self._is_measuring = False
        self._began = None

    def note(self, worker: Hashable, process: Hashable, samples: float | None, now: float) -> None:
        """Take down what a process of a worker has learned, all in all."""
        if worker not in self._workers:
            return
        if worker in self._unheard:
            self._unheard.discard(worker)
            if not self._unheard:
                self._began = now + self._settle
        if samples is not None:
            track = self._tracks.get(process)
            if track is None:
                self._tracks[process] = _Track(samples)
            else:
                track.note(samples, now)

    def tick(self, now: float) -> bool:
        """Begin or end a window if it is time; tells whether there is a new measurement."""
        if self._began is None or now < self._began:
            return False
        if not self._is_measuring:
            for track in self._tracks.values():
                track.begin()
            self._is_measuring, self._began = True, now
            return False
        moving = [track for track in self._tracks.values() if track.moves]
        if not moving or not self._is_long_enough(now - self._began, min(track.moves for track in moving)):
            return False
        self._keep(len(self._workers), sum(track.speed for track in moving))
        for track in self._tracks.values():
            track.begin()
        self._began = now
        return True

    def _is_long_enough(self, lasted: float, moves: int) -> bool:
        # One that stopped in the middle is not waited for: that the job is slower with it is a measurement, too.
        return lasted >= (self._window if moves >= MOVES else LONGEST * self._window)

    def _keep(self, count: int, speed: float) -> None:
        if count in self._kept or len(self._kept) < MOST_COUNTS:
            self._kept[count] = [*self._kept.get(count, []), float(f"{speed:.6g}")][-KEPT:]

    def medians(self) -> dict[int, float]:
        """What was measured, by the number of workers."""
        return {count: median(speeds) for count, speeds in sorted(self._kept.items())}

    def saved(self) -> dict[str, Any]:
        """What was measured as a small JSON value."""
        return {str(count): speeds for count, speeds in self._kept.items()}

    def load(self, value: Mapping[str, list[float]]) -> None:
        """Go on where another was saved."""
        self._kept = {int(count): list(speeds) for count, speeds in value.items()}
