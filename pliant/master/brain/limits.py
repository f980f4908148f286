"""Resource limits of the job and of one member."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, inf

from pliant.master.brain.context import DecisionContext
from pliant.master.brain.formatting import GIB
from pliant.master.model import MIB, MemberStatus, PodResources

DEFAULT_JOB_CPU, DEFAULT_JOB_MEMORY = 100.0, 100 * GIB
"""Limits of all members together if `resourceLimits` does not set them; as in DLRover."""
MIN_POD_CPU, MIN_POD_MEMORY = 0.1, 128 * MIB
MAX_OOM_RAISED_MEMORY_BYTES = 64 * GIB
MAX_TUNED_WORKERS = 64
MEMORY_STEP_BYTES = 64 * MIB


def remaining_job_resources(context: DecisionContext) -> PodResources:
    """Return the limits of the job minus the resources of its pending and running members."""
    job_limits = context.job.resource_limits
    cpu = DEFAULT_JOB_CPU if job_limits.cpu is None else job_limits.cpu
    memory = DEFAULT_JOB_MEMORY if job_limits.memory is None else job_limits.memory
    for member in context.unremoved_members:
        if member.status in (MemberStatus.PENDING, MemberStatus.RUNNING):
            default = context.resources_for(member.key.type)
            cpu -= member.resources.cpu or default.cpu or 0.0
            memory -= member.resources.memory or default.memory or 0
    return PodResources(cpu=max(0.0, cpu), memory=max(0, memory))


def count_fitting_pods(available: PodResources, per_pod: PodResources) -> int:
    by_cpu = inf if not per_pod.cpu else (available.cpu or 0.0) / per_pod.cpu + 1e-6
    by_memory = inf if not per_pod.memory else (available.memory or 0) / per_pod.memory
    count = min(by_cpu, by_memory)
    return MAX_TUNED_WORKERS if count == inf else floor(count)


def round_up_resources(cpu: float | None, memory: int | None, extended_resources: Mapping[str, str]) -> PodResources:
    """Round resources up to readable steps and to the minimum of a pod."""
    if cpu is not None:
        cpu = max(MIN_POD_CPU, ceil(cpu * 10 - 1e-6) / 10)
    if memory is not None:
        memory = max(MIN_POD_MEMORY, ceil(memory / MEMORY_STEP_BYTES) * MEMORY_STEP_BYTES)
    return PodResources(cpu=cpu, memory=memory, extended_resources=extended_resources)
