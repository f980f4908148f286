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

from pliant.autoscale.model import Amounts, Cluster, Code, Elastic, GroupKey, Plan, Verdict

_MEGA = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainers:
    """An elastic group in the units of the original: thousandths of a core, millions of bytes, GPUs."""

    key: GroupKey
    least: int
    most: int
    size: int
    cpu: int
    memory: int
    gpu: int = 0

    @property
    def fulfilment(self) -> float:
        """How much of what it may have it has: 0 at its least size, 1 at its most."""
        return 1.0 if self.least == self.most else (self.size - self.least) / (self.most - self.least)


@dataclass(slots=True, kw_only=True)
class Idle:
    """What one node has left."""

    cpu: int
    memory: int


@dataclass(slots=True, kw_only=True)
class Sums:
    """A cluster as far as the original knew it."""

    cpu_requests: int = 0
    cpu_total: int = 0
    memory_requests: int = 0
    memory_total: int = 0
    gpu_limits: int = 0
    gpu_total: int = 0
    nodes: list[Idle] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """In what generations of the original differ; by default the one whose experiments were published."""

    sheds_memory: bool = False
    """Whether too much memory makes jobs shrink."""
    drains_nodes: bool = False
    """Whether a trainer takes its room from a node, rather than adding it."""


class PublishedEdl:
    """The policy `edl-published`."""

    def __init__(self, rules: Rules | None = None) -> None:
        self._rules = rules or Rules()

    @property
    def name(self) -> str:
        """The word for it in comparisons."""
        return "edl-published"

    def plan(self, cluster: Cluster) -> Plan:
        """The sizes that the original would have set; more than fits, at times."""
        candidates = _candidates(cluster.elastics)
        deltas = planned(_sums_of(cluster), [_trainers(each) for each in candidates], cluster.load, self._rules)
        return {each.key: _verdict(each, deltas.get(each.key)) for each in cluster.elastics}


def ordered(jobs: Iterable[Trainers]) -> list[Trainers]:
    """Elastic ones alone, the least fulfilled first; among equals whoever asks for less."""
    elastic = (job for job in jobs if job.least < job.most)
    return sorted(elastic, key=lambda job: (job.fulfilment, job.gpu, job.cpu, job.memory, job.key))


def planned(sums: Sums, jobs: Iterable[Trainers], load: float, rules: Rules) -> dict[GroupKey, int]:
    """By how much each job's size is to change: all grow by one and then shrink by one, until nothing changes."""
    order = ordered(jobs)
    deltas = {job.key: 0 for job in order}
    seen: set[tuple[int, ...]] = set()
    while (changes := tuple(deltas.values())) not in seen:
        seen.add(changes)
        for job in order:
            deltas[job.key] += grown(sums, job, deltas[job.key], load, rules)
        for job in reversed(order):
            deltas[job.key] += shrunk(sums, job, deltas[job.key], load, rules)
    return deltas


def grown(sums: Sums, job: Trainers, delta: int, load: float, rules: Rules) -> int:
    """Try to add a trainer: what that changes, which is below 0 where the job has more than it may."""
    size = job.size + delta
    if size >= job.most:
        return _taken(sums, job, job.most - size)
    if sums.memory_total - sums.memory_requests <= job.memory:
        return 0
    node = next((each for each in sums.nodes if each.cpu >= job.cpu and each.memory >= job.memory), None)
    if node is None or floor(sums.cpu_total * load) - sums.cpu_requests < job.cpu:
        return 0
    if job.gpu and sums.gpu_total - sums.gpu_limits < job.gpu:
        return 0
    sign = -1 if rules.drains_nodes else 1
    node.cpu += sign * job.cpu
    node.memory += sign * job.memory
    return _taken(sums, job, 1)


def shrunk(sums: Sums, job: Trainers, delta: int, load: float, rules: Rules) -> int:
    """Try to take a trainer away: -1 if the job has more than it may, or can spare one of too many in all."""
    size = job.size + delta
    is_over = (
        sums.gpu_limits > floor(sums.gpu_total * load)
        or sums.cpu_requests > floor(sums.cpu_total * load)
        or (rules.sheds_memory and sums.memory_requests > floor(sums.memory_total * load))
    )
    if size > job.most or (is_over and size > job.least):
        return _taken(sums, job, -1)
    return 0


def _taken(sums: Sums, job: Trainers, number: int) -> int:
    sums.cpu_requests += number * job.cpu
    sums.memory_requests += number * job.memory
    sums.gpu_limits += number * job.gpu
    return number


def _candidates(elastics: Sequence[Elastic]) -> list[Elastic]:
    """Groups that all run, or every one if there is a group of which nobody does."""
    if any(not any(each.places) for each in elastics):
        return list(elastics)
    return [each for each in elastics if all(each.places)]


def _sums_of(cluster: Cluster) -> Sums:
    sums = Sums()
    idle: dict[str, Idle] = {}
    for node in sorted(cluster.nodes, key=lambda each: each.name):
        room, taken = _units(node.room), _units(node.taken)
        sums.cpu_total += room[0]
        sums.memory_total += room[1]
        sums.gpu_total += room[2]
        sums.cpu_requests += taken[0]
        sums.memory_requests += taken[1]
        sums.gpu_limits += taken[2]
        idle[node.name] = Idle(cpu=room[0] - taken[0], memory=room[1] - taken[1])
    for elastic in cluster.elastics:
        _seat(sums, idle, elastic)
    for claim in cluster.claims:
        cpu, memory, gpu = _units(dict(claim.shape.needs))
        sums.cpu_requests += claim.number * cpu
        sums.memory_requests += claim.number * memory
        sums.gpu_limits += claim.number * gpu
    sums.nodes = list(idle.values())
    return sums


def _seat(sums: Sums, idle: dict[str, Idle], elastic: Elastic) -> None:
    job = _trainers(elastic)
    _taken(sums, job, max(elastic.size, len(elastic.places)))
    for place in elastic.places:
        if place in idle:
            idle[place].cpu -= job.cpu
            idle[place].memory -= job.memory


def _trainers(elastic: Elastic) -> Trainers:
    cpu, memory, gpu = _units(dict(elastic.shape.needs))
    return Trainers(
        key=elastic.key,
        least=elastic.least,
        most=elastic.most,
        size=elastic.size,
        cpu=cpu,
        memory=memory,
        gpu=gpu,
    )


def _units(amounts: Amounts) -> tuple[int, int, int]:
    gpu = sum(amount for name, amount in amounts.items() if name.endswith("gpu"))
    return amounts.get("cpu", 0), -(-amounts.get("memory", 0) // _MEGA), gpu


def _verdict(elastic: Elastic, delta: int | None) -> Verdict:
    if delta is None:
        if elastic.least == elastic.most:
            return Verdict(elastic.size, Code.FIXED, "its least size is its most")
        return Verdict(elastic.size, Code.SETTLING, "its members are still coming up")
    size = elastic.size + delta
    if delta > 0:
        return Verdict(size, Code.GROWS, f"{delta} more fit")
    if delta < 0:
        return Verdict(size, Code.GIVES_WAY, "more is asked for than there is")
    if size >= elastic.most:
        return Verdict(size, Code.MOST, f"{elastic.most} is the most it may have")
    return Verdict(size, Code.FULL, "no more fit")
