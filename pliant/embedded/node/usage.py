"""What containers use right now: measured when somebody asks, over a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pliant.embedded.node.link import NodeAgent, StartFailed
from pliant.embedded.server.metrics import Usage

WINDOW = 0.5
"""Seconds over which time on the CPU is counted."""


class NodeUsage:
    """Measures the containers of one agent."""

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._turn = asyncio.Lock()

    async def measured(self) -> Mapping[tuple[str, str], Usage]:
        """What each container, named by its pod's uid and its name, uses; nothing where that cannot be seen."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            try:
                before = {(pod, run): cpu for pod, run, cpu, _ in await self._agent.usage()}
                began = loop.time()
                await asyncio.sleep(WINDOW)
                after = await self._agent.usage()
            except StartFailed:
                return {}  # a container around us hides parts of /proc
            passed = loop.time() - began
        found: dict[tuple[str, str], Usage] = {}
        for pod, run, cpu, memory in after:
            # Sessions are called after the run of the container that they are in.
            key = pod, run.partition("/")[0]
            rate = max(cpu - before.get((pod, run), cpu), 0.0) / passed
            so_far = found.get(key, Usage(cpu=0.0, memory=0))
            found[key] = Usage(cpu=so_far.cpu + rate, memory=so_far.memory + memory)
        return found
