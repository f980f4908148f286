"""Keeps the node agent alive: one that dies is started again, with all that its pods need around them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from pliant.embedded.apiserver.http.https_server import HttpsServer
from pliant.embedded.kubelet.environment.pod_network import PodNetwork, PodObject
from pliant.embedded.kubelet.environment.variables import ResolvedPod
from pliant.embedded.kubelet.runtime.messages import Mount
from pliant.embedded.kubelet.runtime.node_agent import AgentLost
from pliant.embedded.network.modes import NetworkContext, NetworkMode
from pliant.errors import PliantError

INITIAL_RESTART_BACKOFF = 1.0
"""Seconds before the agent is started again; they double with every failure."""
_MAX_RESTART_BACKOFF = 30.0
_MAX_FAILED_RESTARTS = 6
"""So many starts in a row that fail, or are followed by a quick death, are enough."""
_STABLE_AFTER_SECONDS = 60.0
"""An agent that lived for so many seconds starts with a clean slate."""

log = logging.getLogger(__name__)


async def _ignore_restart() -> None:
    """Nobody wants to know."""


class AgentSupervisor:
    """Serves pods what they need around them, anew for every life of the agent."""

    def __init__(self, mode: NetworkMode, front: HttpsServer, network_context: NetworkContext) -> None:
        self._mode = mode
        self._front = front
        self._network_context = network_context
        self._network_stack = AsyncExitStack()
        self._failures = 0
        self.pod_network: PodNetwork
        """What pods find around them at present."""
        self.on_restarted: Callable[[], Awaitable[None]] = _ignore_restart
        """Called when an agent is there again, and nothing of the former one."""

    @classmethod
    @asynccontextmanager
    async def start(
        cls, mode: NetworkMode, front: HttpsServer, network_context: NetworkContext
    ) -> AsyncIterator[AgentSupervisor]:
        """A keeper of an agent that is there, with everything around its pods; `run` does the rest."""
        keeper = cls(mode, front, network_context)
        await keeper._start_network()
        try:
            yield keeper
        finally:
            await keeper._network_stack.aclose()

    async def run(self) -> None:
        """Start the agent again whenever it dies; AgentLost when that does not help."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            with suppress(AgentLost):
                await self._mode.agent.raise_when_lost()
            self._failures = 1 if loop.time() - began > _STABLE_AFTER_SECONDS else self._failures + 1
            reason = "the node agent ended, and every pod with it"
            await self._network_stack.aclose()
            while not await self._restart_agent(reason):
                self._failures += 1
            await self.on_restarted()

    async def _restart_agent(self, reason: str) -> bool:
        """Start the agent again after a pause that grows."""
        if self._failures > _MAX_FAILED_RESTARTS:
            raise AgentLost(f"{reason}; it was started again {_MAX_FAILED_RESTARTS} times in vain")
        pause = min(INITIAL_RESTART_BACKOFF * 2 ** (self._failures - 1), _MAX_RESTART_BACKOFF)
        log.error("node agent lost", extra={"because": reason, "again_in": f"{pause:g}s"})
        await asyncio.sleep(pause)
        try:
            await self._mode.agent.restart()
            await self._start_network()
        except (PliantError, OSError) as problem:
            log.error("node agent not started", extra={"because": str(problem), "attempt": self._failures})
            return False
        log.warning("node agent is back", extra={"attempt": self._failures})
        return True

    async def _start_network(self) -> None:
        """Open the doors to the API, and serve names, services and the way out."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._mode.serve_api(self._front))
            self.pod_network = await stack.enter_async_context(self._mode.serve_network(self._network_context))
            self._network_stack = stack.pop_all()


class CurrentPodNetwork:
    """What a keeper's pods find around them, whichever life of the agent they are in."""

    def __init__(self, supervisor: AgentSupervisor) -> None:
        self._supervisor = supervisor

    def write_files(self, pod: PodObject, hostname: str, pod_ip: str, pod_dir: Path) -> None:
        """Write down for a pod who it is and whom to ask for others."""
        self._supervisor.pod_network.write_files(pod, hostname, pod_ip, pod_dir)

    def mounts(self, pod_dir: Path) -> Iterator[Mount]:
        """What its containers see of that."""
        return self._supervisor.pod_network.mounts(pod_dir)

    def network_variables(self, resolved_pod: ResolvedPod) -> Mapping[str, str]:
        """What its containers are told."""
        return self._supervisor.pod_network.network_variables(resolved_pod)

    def rewrite_hostnames(self, content: bytes) -> bytes:
        """A file as pods are to read it."""
        return self._supervisor.pod_network.rewrite_hostnames(content)

    def mount_warnings(self, pod_spec: Mapping[str, Any]) -> list[str]:
        """What a pod asks for that it will not find as it expects."""
        return self._supervisor.pod_network.mount_warnings(pod_spec)
