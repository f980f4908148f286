"""How fast a job is with so many members."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ThroughputModel:
    """Either points between which speed runs straight, or what a unit of work costs: a/n + b + c·n seconds."""

    cost_terms: tuple[float, float, float] = (1.0, 0.0, 0.0)
    points: tuple[tuple[int, float], ...] = ()

    def throughput_at(self, replicas: int) -> float:
        """Units of work a second with so many members; 0 with none."""
        if replicas <= 0:
            return 0.0
        if self.points:
            return self._interpolate(replicas)
        alone, always, each = self.cost_terms
        return 1.0 / (alone / replicas + always + each * replicas)

    def _interpolate(self, replicas: int) -> float:
        at = bisect_left(self.points, (replicas, float("-inf")))
        if at == len(self.points):
            return self.points[-1][1]  # beyond what is known nothing is gained
        size, speed = self.points[at]
        before, slower = self.points[at - 1] if at else (0, 0.0)
        return slower + (speed - slower) * (replicas - before) / (size - before)


LINEAR_THROUGHPUT = ThroughputModel()


def parse_throughput_model(text: str) -> ThroughputModel:
    """`linear`, `cost A B C`, or points as `1=1 2=1.9 8=6`; ValueError says what it is not."""
    words = text.split()
    if not words or words == ["linear"]:
        return LINEAR_THROUGHPUT
    if words[0] == "cost":
        return _parse_cost_terms(text, words[1:])
    try:
        pairs = [word.split("=") for word in words]
        points = tuple(sorted((int(size), float(speed)) for size, speed in pairs))
    except ValueError:
        raise ValueError(
            f"`{text}` is no speed; write `linear`, `cost 0.9 0.1 0.001`, or points as `1=1 2=1.9 8=6`"
        ) from None
    if points[0][0] < 1 or min(speed for _, speed in points) <= 0:
        raise ValueError(f"`{text}`: sizes must be 1 or more and speeds above 0")
    if len({size for size, _ in points}) < len(points):
        raise ValueError(f"`{text}` names a size twice")
    return ThroughputModel(points=points)


def _parse_cost_terms(text: str, words: list[str]) -> ThroughputModel:
    try:
        alone, always, each = map(float, words)
    except ValueError:
        raise ValueError(
            f"`{text}` needs three numbers: the cost shared by all, of each round, of each member"
        ) from None
    if min(alone, always, each) < 0 or alone + always + each <= 0:
        raise ValueError(f"`{text}`: none of them may be below 0, and not all of them 0")
    return ThroughputModel(cost_terms=(alone, always, each))
