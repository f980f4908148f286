"""How much of what the job may have is left, and what a member gets at least and at most."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, inf

from pliant.master.brain.context import DecisionContext
from pliant.master.brain.formatting import GIB
from pliant.master.model import MIB, JobMember, MemberStatus, PodResources

DEFAULT_JOB_LIMITS = PodResources(cpu=100.0, memory=100 * GIB)
"""What all members together may have, if `resourceLimits` does not say; as in DLRover."""
MIN_POD_RESOURCES = PodResources(cpu=0.1, memory=128 * MIB)
MAX_POD_MEMORY = 64 * GIB
"""Of one member."""
MAX_WORKERS = 64
"""Where neither the author nor the limits say less."""
MEMORY_GRANULARITY = 64 * MIB
_LIVE_STATUSES = (MemberStatus.PENDING, MemberStatus.RUNNING)


def remaining_resources(context: DecisionContext, excluded_members: frozenset[str] = frozenset()) -> PodResources:
    """What the limits leave beside everybody who is there, those named left out."""
    live = [node for node in context.members if node.status in _LIVE_STATUSES and str(node.key) not in excluded_members]
    cpu = _limit_or_default(context.job.resource_limits.cpu, DEFAULT_JOB_LIMITS.cpu) - sum(
        _member_cpu(context, node) for node in live
    )
    memory = _limit_or_default(context.job.resource_limits.memory, DEFAULT_JOB_LIMITS.memory) - sum(
        _member_memory(context, node) for node in live
    )
    return PodResources(cpu=max(0.0, cpu), memory=max(0, int(memory)))


def count_fitting_pods(available: PodResources, per_pod: PodResources) -> int:
    """How many members of a shape fit into what is left."""
    by_cpu = inf if not per_pod.cpu else (available.cpu or 0.0) / per_pod.cpu + 1e-6
    by_memory = inf if not per_pod.memory else (available.memory or 0) / per_pod.memory
    fewest = min(by_cpu, by_memory)
    return MAX_WORKERS if fewest == inf else floor(fewest)


def round_resources(cpu: float | None, memory: int | None, extended_resources: Mapping[str, str]) -> PodResources:
    """An amount fit to ask for: not less than the least, in steps that people can read."""
    return PodResources(
        cpu=None if cpu is None else max(MIN_POD_RESOURCES.cpu or 0.0, ceil(cpu * 10 - 1e-6) / 10),
        memory=None
        if memory is None
        else max(MIN_POD_RESOURCES.memory or 0, ceil(memory / MEMORY_GRANULARITY) * MEMORY_GRANULARITY),
        extended_resources=extended_resources,
    )


def _limit_or_default(limit: float | None, default: float | None) -> float:
    return (default or 0.0) if limit is None else limit


def _member_cpu(context: DecisionContext, member: JobMember) -> float:
    return member.resources.cpu or context.resources_for(member.key.type).cpu or 0.0


def _member_memory(context: DecisionContext, member: JobMember) -> float:
    return member.resources.memory or context.resources_for(member.key.type).memory or 0
