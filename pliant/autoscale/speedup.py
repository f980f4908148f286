"""How fast a group is at sizes it has not had, told from those it has had.

A unit of work is taken to last `a/n + b + c·n` at size n: what is shared, what is not, and talk among members that
grows with their number; none of them below 0. That is enough to tell whether one more member pays, and too little
to be led astray by noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, log

FIT_TOLERANCE = 0.03
"""A simpler curve is believed if it misses no more than this part of what was measured, on average."""
ONE_SIZE_EXTRAPOLATION, MULTI_SIZE_EXTRAPOLATION = 2, 4
"""How many times the largest size that was measured a curve reaches, by how many sizes were."""
_TERM_COMBINATIONS = ((0,), (0, 1), (0, 2), (1,), (2,), (1, 2), (0, 1, 2))
"""Which of a, b and c are not 0: first those by which growing looks best, so that it is tried out."""

_MIN_THROUGHPUT, _MAX_THROUGHPUT = 1e-12, 1e15
"""Whatever is not between them is no speed."""


@dataclass(frozen=True, slots=True)
class SpeedupCurve:
    """How long a unit of work takes by size; sizes begin at 1."""

    parallel_cost: float = 1.0
    serial_cost: float = 0.0
    communication_cost: float = 0.0
    max_known_size: int = 0
    """The largest size of which it tells anything; 0 if nothing was measured, and all of it is a guess."""

    def throughput(self, size: int) -> float:
        """Units of work per unit of time."""
        return (
            size / (self.parallel_cost + size * (self.serial_cost + size * self.communication_cost))
            if size > 0
            else 0.0
        )

    def marginal_speedup(self, size: int) -> float:
        """How many times as fast it is with one more member than at this size."""
        return self.throughput(size + 1) / self.throughput(size) if size > 0 else inf

    def log_speedup(self, size: int) -> float:
        """How much one more member speeds it up, so that zeals of several members add up; below 0 if it slows."""
        return log(self.marginal_speedup(size)) if size > 0 else inf

    def marginal_gain(self, size: int, min_size: int) -> float:
        """What one more member adds, as a part of what each of its least members does."""
        base = max(min_size, 1)
        return (self.throughput(size + 1) - self.throughput(size)) * base / self.throughput(base)


@lru_cache(maxsize=16384)
def fit_speedup_curve(measurements: tuple[tuple[int, float], ...], tolerance: float = FIT_TOLERANCE) -> SpeedupCurve:
    """The simplest curve that explains these sizes and speeds; if there are none, work is shared by all alike."""
    good = [(size, speed) for size, speed in measurements if size > 0 and _MIN_THROUGHPUT < speed < _MAX_THROUGHPUT]
    if not good:
        return SpeedupCurve()
    # As parts of the largest, so that it makes no difference in what units work is counted.
    largest, fastest = max(size for size, _ in good), max(speed for _, speed in good)
    parts = sorted((size / largest, speed / fastest) for size, speed in good)
    sizes = len({size for size, _ in parts})
    fits = [
        fit for choice in _TERM_COMBINATIONS if len(choice) <= sizes and (fit := _fit_terms(parts, choice)) is not None
    ]
    enough = max(1.1 * min(error for error, _ in fits), tolerance)
    shared, alone, talk = next(times for error, times in fits if error <= enough)
    reach = largest * (ONE_SIZE_EXTRAPOLATION if sizes == 1 else MULTI_SIZE_EXTRAPOLATION)
    return SpeedupCurve(shared * largest / fastest, alone / fastest, talk / largest / fastest, reach)


def _fit_terms(points: Sequence[tuple[float, float]], terms: tuple[int, ...]) -> tuple[float, list[float]] | None:
    """The error and the times of the best curve made of these terms; None if a time would be below 0."""
    # Divided by the time that was measured, so that fast sizes count as much as slow ones.
    rows = [[(speed / size, speed, speed * size)[term] for term in terms] for size, speed in points]
    found = _solve_linear_system(
        [[sum(row[i] * row[j] for row in rows) for j in range(len(terms))] for i in range(len(terms))],
        [sum(row[i] for row in rows) for i in range(len(terms))],
    )
    if found is None or min(found) < 0 or max(found) <= 0:
        return None
    misses = (sum(part * time for part, time in zip(row, found, strict=True)) - 1 for row in rows)
    error = (sum(miss * miss for miss in misses) / len(rows)) ** 0.5
    times = dict(zip(terms, found, strict=True))
    return error, [times.get(term, 0.0) for term in range(3)]


def _solve_linear_system(matrix: list[list[float]], constants: list[float]) -> list[float] | None:
    """The answer to up to three equations, by elimination; None if there is not just one."""
    number = len(constants)
    rows = [[*row, value] for row, value in zip(matrix, constants, strict=True)]
    for step in range(number):
        pivot = max(range(step, number), key=lambda row: abs(rows[row][step]))
        rows[step], rows[pivot] = rows[pivot], rows[step]
        if abs(rows[step][step]) <= 1e-12 * max(abs(matrix[step][step]), 1e-300):
            return None
        for below in range(step + 1, number):
            part = rows[below][step] / rows[step][step]
            rows[below] = [value - part * upper for value, upper in zip(rows[below], rows[step], strict=True)]
    answer = [0.0] * number
    for step in reversed(range(number)):
        rest = sum(rows[step][later] * answer[later] for later in range(step + 1, number))
        answer[step] = (rows[step][number] - rest) / rows[step][step]
    return answer
