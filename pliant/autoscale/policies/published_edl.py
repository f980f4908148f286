"""The autoscaler of PaddlePaddle EDL as it was published, mistakes included, to compare others with.

It is not offered to users. What is wrong with it is kept, because its published results came about that way: the
order of jobs is that of their present sizes and not of the planned ones; a plan adds to nodes what it takes;
the limit on load holds for shrinking but not for memory and devices when growing; nodes that are closed count.
Two things differ. Where the original takes nodes and equal jobs in no particular order, here they come by name.
Where it would go round in circles for ever, growing a job and shrinking it again, the plan stops.
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
    """An elastic group in the units of the original: thousandths of a core, millions of bytes, GPUs."""

    key: GroupKey
    min_size: int
    max_size: int
    size: int
    cpu: int
    memory: int
    gpu: int = 0

    @property
    def fulfilment(self) -> float:
        """How much of what it may have it has: 0 at its least size, 1 at its most."""
        return 1.0 if self.min_size == self.max_size else (self.size - self.min_size) / (self.max_size - self.min_size)


@dataclass(slots=True, kw_only=True)
class IdleResources:
    """What one node has left."""

    cpu: int
    memory: int


@dataclass(slots=True, kw_only=True)
class ClusterTotals:
    """A cluster as far as the original knew it."""

    cpu_requests: int = 0
    cpu_total: int = 0
    memory_requests: int = 0
    memory_total: int = 0
    gpu_limits: int = 0
    gpu_total: int = 0
    nodes: list[IdleResources] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEdlOptions:
    """In what generations of the original differ; by default the one whose experiments were published."""

    shrinks_on_memory: bool = False
    """Whether too much memory makes jobs shrink."""
    deducts_from_node: bool = False
    """Whether a trainer takes its room from a node, rather than adding it."""


class PublishedEdlPolicy:
    """The policy `edl-published`."""

    def __init__(self, options: PublishedEdlOptions | None = None) -> None:
        self._options = options or PublishedEdlOptions()

    @property
    def name(self) -> str:
        """The word for it in comparisons."""
        return "edl-published"

    def plan(self, cluster: ClusterSnapshot) -> SizePlan:
        """The sizes that the original would have set; more than fits, at times."""
        candidates = _scalable_groups(cluster.groups)
        deltas = plan_size_deltas(
            _cluster_totals(cluster), [_trainer_job(each) for each in candidates], cluster.max_load, self._options
        )
        return {each.key: _size_decision(each, deltas.get(each.key)) for each in cluster.groups}


def sort_by_fulfilment(jobs: Iterable[TrainerJob]) -> list[TrainerJob]:
    """Elastic ones alone, the least fulfilled first; among equals whoever asks for less."""
    elastic = (job for job in jobs if job.min_size < job.max_size)
    return sorted(elastic, key=lambda job: (job.fulfilment, job.gpu, job.cpu, job.memory, job.key))


def plan_size_deltas(
    totals: ClusterTotals, jobs: Iterable[TrainerJob], max_load: float, options: PublishedEdlOptions
) -> dict[GroupKey, int]:
    """By how much each job's size is to change: all grow by one and then shrink by one, until nothing changes."""
    order = sort_by_fulfilment(jobs)
    deltas = {job.key: 0 for job in order}
    seen: set[tuple[int, ...]] = set()
    while (changes := tuple(deltas.values())) not in seen:
        seen.add(changes)
        for job in order:
            deltas[job.key] += try_grow(totals, job, deltas[job.key], max_load, options)
        for job in reversed(order):
            deltas[job.key] += try_shrink(totals, job, deltas[job.key], max_load, options)
    return deltas


def try_grow(totals: ClusterTotals, job: TrainerJob, delta: int, max_load: float, options: PublishedEdlOptions) -> int:
    """Try to add a trainer: what that changes, which is below 0 where the job has more than it may."""
    size = job.size + delta
    if size >= job.max_size:
        return _add_requests(totals, job, job.max_size - size)
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
    return _add_requests(totals, job, 1)


def try_shrink(
    totals: ClusterTotals, job: TrainerJob, delta: int, max_load: float, options: PublishedEdlOptions
) -> int:
    """Try to take a trainer away: -1 if the job has more than it may, or can spare one of too many in all."""
    size = job.size + delta
    is_over = (
        totals.gpu_limits > floor(totals.gpu_total * max_load)
        or totals.cpu_requests > floor(totals.cpu_total * max_load)
        or (options.shrinks_on_memory and totals.memory_requests > floor(totals.memory_total * max_load))
    )
    if size > job.max_size or (is_over and size > job.min_size):
        return _add_requests(totals, job, -1)
    return 0


def _add_requests(totals: ClusterTotals, job: TrainerJob, count: int) -> int:
    totals.cpu_requests += count * job.cpu
    totals.memory_requests += count * job.memory
    totals.gpu_limits += count * job.gpu
    return count


def _scalable_groups(groups: Sequence[ElasticGroup]) -> list[ElasticGroup]:
    """Groups that all run, or every one if there is a group of which nobody does."""
    if any(not any(each.replica_nodes) for each in groups):
        return list(groups)
    return [each for each in groups if all(each.replica_nodes)]


def _cluster_totals(cluster: ClusterSnapshot) -> ClusterTotals:
    sums = ClusterTotals()
    idle: dict[str, IdleResources] = {}
    for node in sorted(cluster.nodes, key=lambda each: each.name):
        room, taken = _edl_units(node.allocatable), _edl_units(node.used_by_others)
        sums.cpu_total += room[0]
        sums.memory_total += room[1]
        sums.gpu_total += room[2]
        sums.cpu_requests += taken[0]
        sums.memory_requests += taken[1]
        sums.gpu_limits += taken[2]
        idle[node.name] = IdleResources(cpu=room[0] - taken[0], memory=room[1] - taken[1])
    for elastic in cluster.groups:
        _add_group(sums, idle, elastic)
    for claim in cluster.pending_pods:
        cpu, memory, gpu = _edl_units(dict(claim.shape.requests))
        sums.cpu_requests += claim.count * cpu
        sums.memory_requests += claim.count * memory
        sums.gpu_limits += claim.count * gpu
    sums.nodes = list(idle.values())
    return sums


def _add_group(totals: ClusterTotals, idle_by_node: dict[str, IdleResources], elastic: ElasticGroup) -> None:
    job = _trainer_job(elastic)
    _add_requests(totals, job, max(elastic.size, len(elastic.replica_nodes)))
    for place in elastic.replica_nodes:
        if place in idle_by_node:
            idle_by_node[place].cpu -= job.cpu
            idle_by_node[place].memory -= job.memory


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
            return SizeDecision(elastic.size, SizeReason.FIXED, "its least size is its most")
        return SizeDecision(elastic.size, SizeReason.STABILIZING, "its members are still coming up")
    size = elastic.size + delta
    if delta > 0:
        return SizeDecision(size, SizeReason.SCALE_UP, f"{delta} more fit")
    if delta < 0:
        return SizeDecision(size, SizeReason.PREEMPTED, "more is asked for than there is")
    if size >= elastic.max_size:
        return SizeDecision(size, SizeReason.AT_MAX_SIZE, f"{elastic.max_size} is the most it may have")
    return SizeDecision(size, SizeReason.NO_CAPACITY, "no more fit")
