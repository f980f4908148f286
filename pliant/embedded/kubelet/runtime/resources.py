"""Which CPUs a container with a limit runs on: as many as the limit needs, of those promised to the fewest."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Iterable, Mapping
from fractions import Fraction

from pliant.embedded.apiserver.handlers.resource_metrics import ResourceUsage
from pliant.embedded.kubelet.runtime.node_agent import AgentRequestFailed, NodeAgent


class CpuAllocator:
    """Hands out CPUs; containers without a limit use them all, and nobody is refused."""

    def __init__(self, cpus: Iterable[int] | None = None) -> None:
        self._allocated_share = dict.fromkeys(sorted(os.sched_getaffinity(0) if cpus is None else cpus), Fraction())
        self._allocations: dict[object, tuple[list[int], Fraction]] = {}

    def allocate(self, holder: object, cpu_limit: Fraction) -> list[int]:
        """CPUs for a container, none when it may use all of them."""
        count = math.ceil(cpu_limit)
        if not 0 < count < len(self._allocated_share):
            return []
        chosen = sorted(sorted(self._allocated_share, key=lambda cpu: (self._allocated_share[cpu], cpu))[:count])
        share = cpu_limit / count
        for cpu in chosen:
            self._allocated_share[cpu] += share
        self._allocations[holder] = (chosen, share)
        return chosen

    def release(self, holder: object) -> None:
        """The container has ended."""
        chosen, share = self._allocations.pop(holder, ([], Fraction()))
        for cpu in chosen:
            self._allocated_share[cpu] -= share


MEASURE_SECONDS = 0.5
"""Seconds over which time on the CPU is counted."""


class ContainerUsageMeter:
    """Measures the containers of one agent."""

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._lock = asyncio.Lock()

    async def measure(self) -> Mapping[tuple[str, str], ResourceUsage]:
        """What each container, named by its pod's uid and its name, uses; nothing where that cannot be seen."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            try:
                before = {(pod, run): cpu for pod, run, cpu, _ in await self._agent.read_usage()}
                began = loop.time()
                await asyncio.sleep(MEASURE_SECONDS)
                after = await self._agent.read_usage()
            except AgentRequestFailed:
                return {}  # a container around us hides parts of /proc
            passed = loop.time() - began
        found: dict[tuple[str, str], ResourceUsage] = {}
        for pod, run, cpu, memory in after:
            # Sessions are called after the run of the container that they are in.
            key = pod, run.partition("/")[0]
            rate = max(cpu - before.get((pod, run), cpu), 0.0) / passed
            so_far = found.get(key, ResourceUsage(cpu_cores=0.0, memory_bytes=0))
            found[key] = ResourceUsage(cpu_cores=so_far.cpu_cores + rate, memory_bytes=so_far.memory_bytes + memory)
        return found
