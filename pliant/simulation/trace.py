"""The input of a simulation: nodes, services, and jobs with their throughput."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from pliant.autoscale.model import PodShape, ResourceAmounts


@dataclass(frozen=True, slots=True)
class ThroughputModel:
    """Linear interpolation between points, or the cost of a unit of work: a/n + b + c*n seconds."""

    cost_terms: tuple[float, float, float] = (1.0, 0.0, 0.0)
    points: tuple[tuple[int, float], ...] = ()

    def throughput_at(self, replicas: int) -> float:
        if replicas <= 0:
            return 0.0
        if self.points:
            return self._interpolate(replicas)
        parallel, serial, communication = self.cost_terms
        return 1.0 / (parallel / replicas + serial + communication * replicas)

    def _interpolate(self, replicas: int) -> float:
        index = bisect_left(self.points, (replicas, float("-inf")))
        if index == len(self.points):
            return self.points[-1][1]  # constant beyond the last point
        size, throughput = self.points[index]
        previous_size, previous_throughput = self.points[index - 1] if index else (0, 0.0)
        return previous_throughput + (throughput - previous_throughput) * (replicas - previous_size) / (
            size - previous_size
        )


LINEAR_THROUGHPUT = ThroughputModel()


def parse_throughput_model(text: str) -> ThroughputModel:
    """Parse `linear`, `cost A B C`, or points such as `1=1 2=1.9 8=6`; raise ValueError if that fails."""
    parts = text.split()
    if not parts or parts == ["linear"]:
        return LINEAR_THROUGHPUT
    if parts[0] == "cost":
        return _parse_cost_terms(text, parts[1:])
    try:
        pairs = [part.split("=") for part in parts]
        points = tuple(sorted((int(size), float(throughput)) for size, throughput in pairs))
    except ValueError:
        hint = "use `linear`, `cost 0.9 0.1 0.001`, or points such as `1=1 2=1.9 8=6`"
        raise ValueError(f"`{text}` is not a throughput model: {hint}") from None
    if points[0][0] < 1 or min(throughput for _, throughput in points) <= 0:
        raise ValueError(f"`{text}`: sizes must be at least 1 and throughputs above 0")
    if len({size for size, _ in points}) < len(points):
        raise ValueError(f"`{text}`: duplicate size")
    return ThroughputModel(points=points)


def _parse_cost_terms(text: str, parts: list[str]) -> ThroughputModel:
    try:
        parallel, serial, communication = map(float, parts)
    except ValueError:
        raise ValueError(f"`{text}`: must have three numbers: parallel, serial and communication cost") from None
    if min(parallel, serial, communication) < 0 or parallel + serial + communication <= 0:
        raise ValueError(f"`{text}`: costs must not be negative or all 0")
    return ThroughputModel(cost_terms=(parallel, serial, communication))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass:
    name: str
    count: int
    allocatable: ResourceAmounts


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedReplicas:
    """Pods of a job whose number never changes and which it needs to run: parameter servers, a master."""

    name: str
    count: int
    shape: PodShape


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """A job with fixed replicas and one elastic group."""

    name: str
    shape: PodShape
    min_size: int
    max_size: int
    initial_size: int  # its size at submission under an autoscaling policy
    static_size: int  # its size without autoscaling
    submitted_at: float = 0.0
    namespace: str = "default"
    priority: int = 0
    fixed_replicas: tuple[FixedReplicas, ...] = ()
    total_work: float = math.inf  # seconds of work for one replica at throughput 1; by default the job never finishes
    throughput: ThroughputModel = LINEAR_THROUGHPUT
    resize_pause: float = 0.0  # seconds without progress after each resize, for jobs whose replicas all restart


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceService:
    """Pods whose number changes at fixed times, as with a web service under varying load."""

    name: str
    shape: PodShape
    replica_steps: tuple[tuple[float, int], ...]  # (time, replica count) pairs in order of time
    namespace: str = "default"
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementWindow:
    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationTrace:
    nodes: tuple[NodeClass, ...]
    jobs: tuple[TraceJob, ...] = ()
    services: tuple[TraceService, ...] = ()
    windows: tuple[MeasurementWindow, ...] = ()
    end_at: float = math.inf  # when the simulation ends; by default when the last job finishes
    period: float = 5.0
    urgent_period: float = 1.0
    """The interval between planning rounds in seconds; `urgent_period` applies while pods are unschedulable."""
