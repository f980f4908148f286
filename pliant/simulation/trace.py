"""What a simulated cluster is given: nodes, jobs that come, services that swell and shrink."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pliant.autoscale.model import PodShape, ResourceAmounts
from pliant.simulation.throughput import LINEAR_THROUGHPUT, ThroughputModel


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass:
    """Machines that are alike."""

    name: str
    count: int
    allocatable: ResourceAmounts


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedReplicas:
    """Pods of a job whose number never changes, and without which it stands still: parameter servers, a master."""

    name: str
    count: int
    shape: PodShape


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """A job: its staff, and one group of members whose number may change."""

    name: str
    shape: PodShape
    min_size: int
    max_size: int
    initial_size: int
    """The size it comes with where somebody scales it."""
    static_size: int
    """The size it has where nobody does."""
    submitted_at: float = 0.0
    namespace: str = "default"
    priority: int = 0
    fixed_replicas: tuple[FixedReplicas, ...] = ()
    total_work: float = math.inf
    """Seconds that one member would take at speed 1; endless unless told."""
    throughput: ThroughputModel = LINEAR_THROUGHPUT
    resize_pause: float = 0.0
    """Seconds for which it stands still after each resize, where all members have to start again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceService:
    """Pods that come and go by the clock, as those of a web service do with its visitors."""

    name: str
    shape: PodShape
    replica_steps: tuple[tuple[float, int], ...]
    """From which second on there are to be how many, in order."""
    namespace: str = "default"
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementWindow:
    """A stretch of time that is measured by itself."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationTrace:
    """All of it."""

    nodes: tuple[NodeClass, ...]
    jobs: tuple[TraceJob, ...] = ()
    services: tuple[TraceService, ...] = ()
    windows: tuple[MeasurementWindow, ...] = ()
    end_at: float = math.inf
    """When to stop looking; otherwise when the last job has ended."""
    period: float = 5.0
    urgent_period: float = 1.0
    """Seconds from one round of the autoscaler to the next, the latter when somebody cannot be placed."""
