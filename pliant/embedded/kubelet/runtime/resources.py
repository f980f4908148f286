"""Allocate CPUs to containers with a CPU limit, and measure the resource usage of containers."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Iterable, Mapping
from fractions import Fraction

from pliant.embedded.apiserver.handlers.resource_metrics import ResourceUsage
from pliant.embedded.kubelet.runtime.messages import AgentRequestFailed
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient

USAGE_SAMPLE_SECONDS = 0.5


class CpuAllocator:
    """Assigns the least allocated CPUs to each container; a container without a limit may use all CPUs."""

    def __init__(self, cpus: Iterable[int] | None = None) -> None:
        self._allocated_share = dict.fromkeys(sorted(os.sched_getaffinity(0) if cpus is None else cpus), Fraction())
        self._allocations: dict[object, tuple[list[int], Fraction]] = {}

    def allocate(self, holder: object, cpu_limit: Fraction) -> list[int]:
        """Return the CPUs of a container; an empty list means all."""
        count = math.ceil(cpu_limit)
        if not 0 < count < len(self._allocated_share):
            return []
        cpus = sorted(sorted(self._allocated_share, key=lambda cpu: (self._allocated_share[cpu], cpu))[:count])
        share = cpu_limit / count
        for cpu in cpus:
            self._allocated_share[cpu] += share
        self._allocations[holder] = (cpus, share)
        return cpus

    def release(self, holder: object) -> None:
        cpus, share = self._allocations.pop(holder, ([], Fraction()))
        for cpu in cpus:
            self._allocated_share[cpu] -= share


class ContainerUsageMeter:
    """Measures the CPU and memory usage of all containers of an agent."""

    def __init__(self, agent: NodeAgentClient) -> None:
        self._agent = agent
        self._lock = asyncio.Lock()

    async def measure_container_usage(self) -> Mapping[tuple[str, str], ResourceUsage]:
        """Return the usage of each container by pod uid and container name; nothing if /proc cannot be read."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            try:
                cpu_before = {(pod, run): cpu for pod, run, cpu, _ in await self._agent.read_container_usage()}
                started_at = loop.time()
                await asyncio.sleep(USAGE_SAMPLE_SECONDS)
                samples = await self._agent.read_container_usage()
            except AgentRequestFailed:
                return {}  # An outer container masks parts of /proc.
            elapsed = loop.time() - started_at
        usage: dict[tuple[str, str], ResourceUsage] = {}
        for pod, run, cpu, memory in samples:
            # The name of a session begins with the run name of its container.
            key = pod, run.partition("/")[0]
            cores = max(cpu - cpu_before.get((pod, run), cpu), 0.0) / elapsed
            total = usage.get(key, ResourceUsage(cpu_cores=0.0, memory_bytes=0))
            usage[key] = ResourceUsage(cpu_cores=total.cpu_cores + cores, memory_bytes=total.memory_bytes + memory)
        return usage
