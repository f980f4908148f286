"""Simulated workloads: pods, sets of equal pods, and jobs."""

from __future__ import annotations

from enum import Enum, auto

from pliant.autoscale.cooldowns import GroupScaleHistory
from pliant.autoscale.model import ElasticGroup, GroupKey, PodShape
from pliant.simulation.nodes import IndexedRequests
from pliant.simulation.trace import TraceJob

JOB_KIND = "Simulated"
REPLICA_GROUP_NAME = "worker"


class SimulatedPodState(Enum):
    PENDING = auto()
    STARTING = auto()
    RUNNING = auto()
    TERMINATING = auto()
    GONE = auto()


class SimulatedPod:
    __slots__ = ("created_at", "is_cpu_counted", "node", "pod_set", "sequence", "state")

    def __init__(self, pod_set: PodSet, created_at: float, sequence: int) -> None:
        self.pod_set = pod_set
        self.created_at = created_at
        self.sequence = sequence
        self.state = SimulatedPodState.PENDING
        self.node = -1
        self.is_cpu_counted = False  # whether its CPU counts as used: from when it runs until it is gone


class PodSet:
    """Equal pods of one owner, without terminating ones."""

    __slots__ = (
        "cpu", "created_at", "indexed_requests", "is_elastic", "job", "key", "pending_count", "pods",
        "priority", "running_count", "shape",
    )  # fmt: skip

    def __init__(
        self, key: str, shape: PodShape, indexed_requests: IndexedRequests, *, priority: int, created_at: float
    ) -> None:
        self.key = key
        self.shape = shape
        self.indexed_requests = indexed_requests
        self.cpu = dict(shape.requests).get("cpu", 0)
        self.priority = priority
        self.created_at = created_at
        self.is_elastic = False
        self.job: SimulatedJob | None = None
        self.pods: list[SimulatedPod] = []
        self.pending_count = 0
        self.running_count = 0

    @property
    def is_fully_running(self) -> bool:
        return self.running_count == len(self.pods)


class SimulatedJob:
    __slots__ = (
        "elastic_group", "ended_at", "fixed_pod_sets", "history", "key", "paused_until", "rate_version",
        "replicas", "resize_count", "spec", "started_at", "throughputs", "updated_at", "work_left",
        "work_rate",
    )  # fmt: skip

    def __init__(self, spec: TraceJob, replicas: PodSet, fixed_pod_sets: list[PodSet], now: float) -> None:
        self.spec = spec
        self.key = GroupKey(spec.namespace, JOB_KIND, spec.name, REPLICA_GROUP_NAME)
        self.replicas = replicas
        self.fixed_pod_sets = fixed_pod_sets
        self.work_left = spec.total_work
        self.work_rate = 0.0
        self.updated_at = now
        self.rate_version = 0  # incremented with each change of the rate; completion events of older versions are void
        self.paused_until = 0.0
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.resize_count = 0
        self.history = GroupScaleHistory(restarts_on_resize=spec.resize_pause > 0)
        self.throughputs: dict[int, float] = {}
        self.elastic_group: ElasticGroup | None = None  # the cached input for policies; None if outdated

    @property
    def is_making_progress(self) -> bool:
        """Whether it makes progress: all fixed replicas and at least the minimum number of elastic ones run."""
        min_running = min(self.spec.min_size, self.spec.static_size)
        return self.replicas.running_count >= max(min_running, 1) and all(
            pod_set.is_fully_running for pod_set in self.fixed_pod_sets
        )
