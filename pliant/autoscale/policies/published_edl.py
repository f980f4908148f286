"""The autoscaler of PaddlePaddle EDL as published, including its defects, for comparison.

Users cannot select it. Its defects are kept, because they shaped its published results: jobs are ordered by current
instead of planned sizes; a plan adds to nodes what it should deduct; the load limit applies when shrinking but not
to memory and devices when growing; unschedulable nodes count. Two things differ: nodes and equal jobs are ordered
by name where the original order is undefined, and planning stops where the original would loop forever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import floor

from pliant.autoscale.model import (
    ClusterSnapshot,
    ElasticGroup,
    GroupKey,
    ResourceAmounts,
    SizeDecision,
    SizePlan,
    SizeReason,
)

_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerJob:
    """An elastic group in the units of the original: millicores, megabytes and GPUs."""

    key: GroupKey
    min_size: int
    max_size: int
    size: int
    cpu: int
    memory: int
    gpu: int = 0

    @property
    def requests(self) -> tuple[int, int, int]:
        return self.cpu, self.memory, self.gpu

    @property
    def fulfilment(self) -> float:
        """The position of its size between its minimum (0) and its maximum (1)."""
        return 1.0 if self.min_size == self.max_size else (self.size - self.min_size) / (self.max_size - self.min_size)


@dataclass(slots=True, kw_only=True)
class IdleResources:
    cpu: int
    memory: int


@dataclass(slots=True, kw_only=True)
class ClusterTotals:
    cpu_requests: int = 0
    cpu_total: int = 0
    memory_requests: int = 0
    memory_total: int = 0
    gpu_limits: int = 0
    gpu_total: int = 0
    nodes: list[IdleResources] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEdlOptions:
    """Differences between versions of the original; the defaults are those of the published experiments."""

    shrinks_on_memory: bool = False  # whether jobs shrink when too much memory is requested
    deducts_from_node: bool = False  # whether a trainer's requests are deducted from its node instead of being added


class PublishedEdlPolicy:
    name = "edl-published"

    def __init__(self, options: PublishedEdlOptions | None = None) -> None:
        self._options = options or PublishedEdlOptions()

    def plan(self, cluster: ClusterSnapshot) -> SizePlan:
        """Return the sizes that the original would set; they may exceed the capacity."""
        candidates = _scalable_groups(cluster.groups)
        deltas = plan_size_deltas(
            _cluster_totals(cluster), [_trainer_job(each) for each in candidates], cluster.max_load, self._options
        )
        return {each.key: _size_decision(each, deltas.get(each.key)) for each in cluster.groups}


def elastic_jobs_by_fulfilment(jobs: Iterable[TrainerJob]) -> list[TrainerJob]:
    """Return the elastic jobs, the least fulfilled first; among equals the smaller request."""
    elastic = (job for job in jobs if job.min_size < job.max_size)
    return sorted(elastic, key=lambda job: (job.fulfilment, job.gpu, job.cpu, job.memory, job.key))


def plan_size_deltas(
    totals: ClusterTotals, jobs: Iterable[TrainerJob], max_load: float, options: PublishedEdlOptions
) -> dict[GroupKey, int]:
    """Return the change of each job's size: grow each by one, then shrink each by one, until nothing changes."""
    order = elastic_jobs_by_fulfilment(jobs)
    deltas = {job.key: 0 for job in order}
    previous_deltas: set[tuple[int, ...]] = set()
    while (current := tuple(deltas.values())) not in previous_deltas:
        previous_deltas.add(current)
        for job in order:
            deltas[job.key] += plan_growth_step(totals, job, deltas[job.key], max_load, options)
        for job in reversed(order):
            deltas[job.key] += plan_shrink_step(totals, job, deltas[job.key], max_load, options)
    return deltas


def plan_growth_step(
    totals: ClusterTotals, job: TrainerJob, delta: int, max_load: float, options: PublishedEdlOptions
) -> int:
    """Try to add a trainer; return the change, which is negative if the job exceeds its maximum."""
    size = job.size + delta
    if size >= job.max_size:
        return _add_requests(totals, job.requests, job.max_size - size)
    if totals.memory_total - totals.memory_requests <= job.memory:
        return 0
    node = next((each for each in totals.nodes if each.cpu >= job.cpu and each.memory >= job.memory), None)
    if node is None or floor(totals.cpu_total * max_load) - totals.cpu_requests < job.cpu:
        return 0
    if job.gpu and totals.gpu_total - totals.gpu_limits < job.gpu:
        return 0
    sign = -1 if options.deducts_from_node else 1
    node.cpu += sign * job.cpu
    node.memory += sign * job.memory
    return _add_requests(totals, job.requests, 1)


def plan_shrink_step(
    totals: ClusterTotals, job: TrainerJob, delta: int, max_load: float, options: PublishedEdlOptions
) -> int:
    """Remove a trainer if the job exceeds its maximum, or the cluster its load limit; return the change."""
    size = job.size + delta
    is_over = (
        totals.gpu_limits > floor(totals.gpu_total * max_load)
        or totals.cpu_requests > floor(totals.cpu_total * max_load)
        or (options.shrinks_on_memory and totals.memory_requests > floor(totals.memory_total * max_load))
    )
    if size > job.max_size or (is_over and size > job.min_size):
        return _add_requests(totals, job.requests, -1)
    return 0


def _add_requests(totals: ClusterTotals, requests: tuple[int, int, int], count: int) -> int:
    cpu, memory, gpu = requests
    totals.cpu_requests += count * cpu
    totals.memory_requests += count * memory
    totals.gpu_limits += count * gpu
    return count


def _scalable_groups(groups: Sequence[ElasticGroup]) -> list[ElasticGroup]:
    """Return the groups that run completely, or all groups if one has no running replica."""
    if any(not any(each.replica_nodes) for each in groups):
        return list(groups)
    return [each for each in groups if all(each.replica_nodes)]


def _cluster_totals(cluster: ClusterSnapshot) -> ClusterTotals:
    totals = ClusterTotals()
    idle: dict[str, IdleResources] = {}
    for node in sorted(cluster.nodes, key=lambda each: each.name):
        (cpu, memory, gpu), used = _edl_units(node.allocatable), _edl_units(node.used_by_others)
        totals.cpu_total += cpu
        totals.memory_total += memory
        totals.gpu_total += gpu
        _add_requests(totals, used, 1)
        idle[node.name] = IdleResources(cpu=cpu - used[0], memory=memory - used[1])
    for elastic in cluster.groups:
        requests = _edl_units(dict(elastic.shape.requests))
        _add_requests(totals, requests, max(elastic.size, len(elastic.replica_nodes)))
        for node_name in elastic.replica_nodes:
            if node_name in idle:
                idle[node_name].cpu -= requests[0]
                idle[node_name].memory -= requests[1]
    for pending in cluster.pending_pods:
        _add_requests(totals, _edl_units(dict(pending.shape.requests)), pending.count)
    totals.nodes = list(idle.values())
    return totals


def _trainer_job(elastic: ElasticGroup) -> TrainerJob:
    cpu, memory, gpu = _edl_units(dict(elastic.shape.requests))
    return TrainerJob(
        key=elastic.key,
        min_size=elastic.min_size,
        max_size=elastic.max_size,
        size=elastic.size,
        cpu=cpu,
        memory=memory,
        gpu=gpu,
    )


def _edl_units(amounts: ResourceAmounts) -> tuple[int, int, int]:
    gpu = sum(amount for name, amount in amounts.items() if name.endswith("gpu"))
    return amounts.get("cpu", 0), -(-amounts.get("memory", 0) // _MEGABYTE), gpu


def _size_decision(elastic: ElasticGroup, delta: int | None) -> SizeDecision:
    if delta is None:
        if elastic.min_size == elastic.max_size:
            return SizeDecision(elastic.size, SizeReason.FIXED, "its minimum equals its maximum")
        return SizeDecision(elastic.size, SizeReason.STABILIZING, "its replicas are still starting")
    size = elastic.size + delta
    if delta > 0:
        return SizeDecision(size, SizeReason.SCALE_UP, f"{delta} more fit")
    if delta < 0:
        return SizeDecision(size, SizeReason.PREEMPTED, "requests exceed the capacity")
    if size >= elastic.max_size:
        return SizeDecision(size, SizeReason.AT_MAX_SIZE, f"{elastic.max_size} is its maximum")
    return SizeDecision(size, SizeReason.INSUFFICIENT_CAPACITY, "no more fit")
