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

NOISE = 0.03
"""A simpler curve is believed if it misses no more than this part of what was measured, on average."""
BY_ONE, BY_SEVERAL = 2, 4
"""How many times the largest size that was measured a curve reaches, by how many sizes were."""
_CHOICES = ((0,), (0, 1), (0, 2), (1,), (2,), (1, 2), (0, 1, 2))
"""Which of a, b and c are not 0: first those by which growing looks best, so that it is tried out."""

_SLOWEST, _FASTEST = 1e-12, 1e15
"""Whatever is not between them is no speed."""


@dataclass(frozen=True, slots=True)
class Curve:
    """How long a unit of work takes by size; sizes begin at 1."""

    shared: float = 1.0
    alone: float = 0.0
    talk: float = 0.0
    reach: int = 0
    """The largest size of which it tells anything; 0 if nothing was measured, and all of it is a guess."""

    def speed(self, size: int) -> float:
        """Units of work per unit of time."""
        return size / (self.shared + size * (self.alone + size * self.talk)) if size > 0 else 0.0

    def ratio(self, size: int) -> float:
        """How many times as fast it is with one more member than at this size."""
        return self.speed(size + 1) / self.speed(size) if size > 0 else inf

    def zeal(self, size: int) -> float:
        """How much one more member speeds it up, so that zeals of several members add up; below 0 if it slows."""
        return log(self.ratio(size)) if size > 0 else inf

    def worth(self, size: int, least: int) -> float:
        """What one more member adds, as a part of what each of its least members does."""
        base = max(least, 1)
        return (self.speed(size + 1) - self.speed(size)) * base / self.speed(base)


@lru_cache(maxsize=16384)
def fitted(points: tuple[tuple[int, float], ...], noise: float = NOISE) -> Curve:
    """The simplest curve that explains these sizes and speeds; if there are none, work is shared by all alike."""
    good = [(size, speed) for size, speed in points if size > 0 and _SLOWEST < speed < _FASTEST]
    if not good:
        return Curve()
    # As parts of the largest, so that it makes no difference in what units work is counted.
    largest, fastest = max(size for size, _ in good), max(speed for _, speed in good)
    parts = sorted((size / largest, speed / fastest) for size, speed in good)
    sizes = len({size for size, _ in parts})
    fits = [fit for choice in _CHOICES if len(choice) <= sizes and (fit := _fit(parts, choice)) is not None]
    enough = max(1.1 * min(error for error, _ in fits), noise)
    shared, alone, talk = next(times for error, times in fits if error <= enough)
    reach = largest * (BY_ONE if sizes == 1 else BY_SEVERAL)
    return Curve(shared * largest / fastest, alone / fastest, talk / largest / fastest, reach)


def _fit(points: Sequence[tuple[float, float]], choice: tuple[int, ...]) -> tuple[float, list[float]] | None:
    """The error and the times of the best curve made of these terms; None if a time would be below 0."""
    # Divided by the time that was measured, so that fast sizes count as much as slow ones.
    rows = [[(speed / size, speed, speed * size)[term] for term in choice] for size, speed in points]
    found = _solved(
        [[sum(row[i] * row[j] for row in rows) for j in range(len(choice))] for i in range(len(choice))],
        [sum(row[i] for row in rows) for i in range(len(choice))],
    )
    if found is None or min(found) < 0 or max(found) <= 0:
        return None
    misses = (sum(part * time for part, time in zip(row, found, strict=True)) - 1 for row in rows)
    error = (sum(miss * miss for miss in misses) / len(rows)) ** 0.5
    times = dict(zip(choice, found, strict=True))
    return error, [times.get(term, 0.0) for term in range(3)]


def _solved(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """The answer to up to three equations, by elimination; None if there is not just one."""
    number = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
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
