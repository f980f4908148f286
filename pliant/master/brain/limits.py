"""How much of what the job may have is left, and what a member gets at least and at most."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, inf

from pliant.master.brain.case import Case
from pliant.master.brain.words import GIB
from pliant.master.model import MIB, Node, NodeStatus, Resources

DEFAULT = Resources(cpu=100.0, memory=100 * GIB)
"""What all members together may have, if `resourceLimits` does not say; as in DLRover."""
LEAST = Resources(cpu=0.1, memory=128 * MIB)
MOST_MEMORY = 64 * GIB
"""Of one member."""
MOST_WORKERS = 64
"""Where neither the author nor the limits say less."""
GRAIN = 64 * MIB
_LIVE = (NodeStatus.PENDING, NodeStatus.RUNNING)


def left(case: Case, without: frozenset[str] = frozenset()) -> Resources:
    """What the limits leave beside everybody who is there, those named left out."""
    live = [node for node in case.nodes if node.status in _LIVE and str(node.key) not in without]
    cpu = _limit(case.job.limits.cpu, DEFAULT.cpu) - sum(_cpu(case, node) for node in live)
    memory = _limit(case.job.limits.memory, DEFAULT.memory) - sum(_memory(case, node) for node in live)
    return Resources(cpu=max(0.0, cpu), memory=max(0, int(memory)))


def how_many(room: Resources, each: Resources) -> int:
    """How many members of a shape fit into what is left."""
    by_cpu = inf if not each.cpu else (room.cpu or 0.0) / each.cpu + 1e-6
    by_memory = inf if not each.memory else (room.memory or 0) / each.memory
    fewest = min(by_cpu, by_memory)
    return MOST_WORKERS if fewest == inf else floor(fewest)


def rounded(cpu: float | None, memory: int | None, others: Mapping[str, str]) -> Resources:
    """An amount fit to ask for: not less than the least, in steps that people can read."""
    return Resources(
        cpu=None if cpu is None else max(LEAST.cpu or 0.0, ceil(cpu * 10 - 1e-6) / 10),
        memory=None if memory is None else max(LEAST.memory or 0, ceil(memory / GRAIN) * GRAIN),
        others=others,
    )


def _limit(said: float | None, default: float | None) -> float:
    return (default or 0.0) if said is None else said


def _cpu(case: Case, node: Node) -> float:
    return node.resources.cpu or case.shape(node.key.type).cpu or 0.0


def _memory(case: Case, node: Node) -> float:
    return node.resources.memory or case.shape(node.key.type).memory or 0
