"""The input of a simulation: nodes, jobs and services."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pliant.autoscale.model import PodShape, ResourceAmounts
from pliant.simulation.throughput import LINEAR_THROUGHPUT, ThroughputModel


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
