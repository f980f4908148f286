"""Keeps the node agent alive: one that dies is started again, with all that its pods need around them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from pliant.embedded.modes import Mode, Site
from pliant.embedded.node.commands import Mount
from pliant.embedded.node.environment import PodFacts
from pliant.embedded.node.link import AgentLost
from pliant.embedded.node.locality import Locality, Pod
from pliant.embedded.server.http import HttpFront
from pliant.errors import PliantError

FIRST_PAUSE = 1.0
"""Seconds before the agent is started again; they double with every failure."""
_LONGEST_PAUSE = 30.0
_MOST = 6
"""So many starts in a row that fail, or are followed by a quick death, are enough."""
_STEADY = 60.0
"""An agent that lived for so many seconds starts with a clean slate."""

log = logging.getLogger(__name__)


async def _nothing() -> None:
    """Nobody wants to know."""


class AgentKeeper:
    """Serves pods what they need around them, anew for every life of the agent."""

    def __init__(self, mode: Mode, front: HttpFront, site: Site) -> None:
        self._mode = mode
        self._front = front
        self._site = site
        self._around = AsyncExitStack()
        self._failures = 0
        self.locality: Locality
        """What pods find around them at present."""
        self.on_back: Callable[[], Awaitable[None]] = _nothing
        """Called when an agent is there again, and nothing of the former one."""

    @classmethod
    @asynccontextmanager
    async def serving(cls, mode: Mode, front: HttpFront, site: Site) -> AsyncIterator[AgentKeeper]:
        """A keeper of an agent that is there, with everything around its pods; `run` does the rest."""
        keeper = cls(mode, front, site)
        await keeper._furnish()
        try:
            yield keeper
        finally:
            await keeper._around.aclose()

    async def run(self) -> None:
        """Start the agent again whenever it dies; AgentLost when that does not help."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            with suppress(AgentLost):
                await self._mode.agent.wait_lost()
            self._failures = 1 if loop.time() - began > _STEADY else self._failures + 1
            reason = "the node agent ended, and every pod with it"
            await self._around.aclose()
            while not await self._is_back(reason):
                self._failures += 1
            await self.on_back()

    async def _is_back(self, reason: str) -> bool:
        """Start the agent again after a pause that grows."""
        if self._failures > _MOST:
            raise AgentLost(f"{reason}; it was started again {_MOST} times in vain")
        pause = min(FIRST_PAUSE * 2 ** (self._failures - 1), _LONGEST_PAUSE)
        log.error("node agent lost", extra={"because": reason, "again_in": f"{pause:g}s"})
        await asyncio.sleep(pause)
        try:
            await self._mode.agent.revive()
            await self._furnish()
        except (PliantError, OSError) as problem:
            log.error("node agent not started", extra={"because": str(problem), "attempt": self._failures})
            return False
        log.warning("node agent is back", extra={"attempt": self._failures})
        return True

    async def _furnish(self) -> None:
        """Open the doors to the API, and serve names, services and the way out."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._mode.doors(self._front))
            self.locality = await stack.enter_async_context(self._mode.serving(self._site))
            self._around = stack.pop_all()


class Around:
    """What a keeper's pods find around them, whichever life of the agent they are in."""

    def __init__(self, keeper: AgentKeeper) -> None:
        self._keeper = keeper

    def settle(self, pod: Pod, host: str, address: str, folder: Path) -> None:
        """Write down for a pod who it is and whom to ask for others."""
        self._keeper.locality.settle(pod, host, address, folder)

    def mounts(self, folder: Path) -> Iterator[Mount]:
        """What its containers see of that."""
        return self._keeper.locality.mounts(folder)

    def variables(self, facts: PodFacts) -> Mapping[str, str]:
        """What its containers are told."""
        return self._keeper.locality.variables(facts)

    def spoken(self, content: bytes) -> bytes:
        """A file as pods are to read it."""
        return self._keeper.locality.spoken(content)

    def caveats(self, spec: Mapping[str, Any]) -> list[str]:
        """What a pod asks for that it will not find as it expects."""
        return self._keeper.locality.caveats(spec)
