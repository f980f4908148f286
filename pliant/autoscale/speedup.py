"""Predicts the throughput of a group at sizes that were not measured.

A unit of work at size n takes `a/n + b + c*n`: parallel work, serial work and communication, all at least 0. This
model suffices to decide whether one more replica is worthwhile, and is simple enough not to fit noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, log

FIT_TOLERANCE = 0.03  # the mean relative error up to which a simpler curve is preferred
ONE_SIZE_EXTRAPOLATION, MULTI_SIZE_EXTRAPOLATION = 2, 4
"""How far a curve extrapolates, as a multiple of the largest measured size: with one and with more sizes."""
_TERM_COMBINATIONS = ((0,), (0, 1), (0, 2), (1,), (2,), (1, 2), (0, 1, 2))
"""The combinations of a, b and c that are not 0, most optimistic first, so that growth is tried."""

_MIN_THROUGHPUT, _MAX_THROUGHPUT = 1e-12, 1e15  # values outside this range are ignored


@dataclass(frozen=True, slots=True)
class SpeedupCurve:
    """The time per unit of work as a function of size (at least 1)."""

    parallel_cost: float = 1.0
    serial_cost: float = 0.0
    communication_cost: float = 0.0
    max_valid_size: int = 0  # the largest size for which it is valid; 0 without measurements

    def throughput_at(self, size: int) -> float:
        if size <= 0:
            return 0.0
        return size / (self.parallel_cost + size * (self.serial_cost + size * self.communication_cost))

    def marginal_speedup(self, size: int) -> float:
        return self.throughput_at(size + 1) / self.throughput_at(size) if size > 0 else inf

    def log_marginal_speedup(self, size: int) -> float:
        """Return the logarithm of the marginal speedup; negative if one more replica slows the group down."""
        return log(self.marginal_speedup(size)) if size > 0 else inf

    def relative_marginal_gain(self, size: int, min_size: int) -> float:
        """Return the throughput that one more replica adds, relative to the throughput per replica at `min_size`."""
        base = max(min_size, 1)
        return (self.throughput_at(size + 1) - self.throughput_at(size)) * base / self.throughput_at(base)


@lru_cache(maxsize=16384)
def fit_speedup_curve(measurements: tuple[tuple[int, float], ...], tolerance: float = FIT_TOLERANCE) -> SpeedupCurve:
    """Return the simplest curve that fits (size, throughput) pairs; without any, linear speedup."""
    valid = [
        (size, throughput)
        for size, throughput in measurements
        if size > 0 and _MIN_THROUGHPUT < throughput < _MAX_THROUGHPUT
    ]
    if not valid:
        return SpeedupCurve()
    # Normalized, so that the units of the measurements do not matter.
    largest, fastest = max(size for size, _ in valid), max(throughput for _, throughput in valid)
    points = sorted((size / largest, throughput / fastest) for size, throughput in valid)
    sizes = len({size for size, _ in points})
    candidates = [
        fit for terms in _TERM_COMBINATIONS if len(terms) <= sizes and (fit := _fit_terms(points, terms)) is not None
    ]
    max_error = max(1.1 * min(error for error, _ in candidates), tolerance)
    parallel, serial, communication = next(times for error, times in candidates if error <= max_error)
    reach = largest * (ONE_SIZE_EXTRAPOLATION if sizes == 1 else MULTI_SIZE_EXTRAPOLATION)
    return SpeedupCurve(parallel * largest / fastest, serial / fastest, communication / largest / fastest, reach)


def _fit_terms(points: Sequence[tuple[float, float]], terms: tuple[int, ...]) -> tuple[float, list[float]] | None:
    """Return the error and the coefficients of the best curve with these terms; None if one would be negative."""
    # Relative errors: small and large times count equally.
    rows = [[(throughput / size, throughput, throughput * size)[term] for term in terms] for size, throughput in points]
    coefficients = _solve_linear_system(
        [[sum(row[i] * row[j] for row in rows) for j in range(len(terms))] for i in range(len(terms))],
        [sum(row[i] for row in rows) for i in range(len(terms))],
    )
    if coefficients is None or min(coefficients) < 0 or max(coefficients) <= 0:
        return None
    residuals = (sum(part * time for part, time in zip(row, coefficients, strict=True)) - 1 for row in rows)
    error = (sum(residual * residual for residual in residuals) / len(rows)) ** 0.5
    times = dict(zip(terms, coefficients, strict=True))
    return error, [times.get(term, 0.0) for term in range(3)]


def _solve_linear_system(matrix: list[list[float]], constants: list[float]) -> list[float] | None:
    """Solve up to three linear equations by elimination; return None if there is no unique solution."""
    dimension = len(constants)
    rows = [[*row, value] for row, value in zip(matrix, constants, strict=True)]
    for step in range(dimension):
        pivot = max(range(step, dimension), key=lambda row: abs(rows[row][step]))
        rows[step], rows[pivot] = rows[pivot], rows[step]
        if abs(rows[step][step]) <= 1e-12 * max(abs(matrix[step][step]), 1e-300):
            return None
        for below in range(step + 1, dimension):
            part = rows[below][step] / rows[step][step]
            rows[below] = [value - part * upper for value, upper in zip(rows[below], rows[step], strict=True)]
    solution = [0.0] * dimension
    for step in reversed(range(dimension)):
        known_part = sum(rows[step][later] * solution[later] for later in range(step + 1, dimension))
        solution[step] = (rows[step][dimension] - known_part) / rows[step][step]
    return solution
