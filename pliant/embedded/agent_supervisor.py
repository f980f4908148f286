"""Restarts the node agent and the pod network services when the agent dies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from pliant.embedded.agent.container.config import Mount
from pliant.embedded.apiserver.http.https_server import HttpsServer
from pliant.embedded.kubelet.environment.pod_network import PodNetworkSetup
from pliant.embedded.kubelet.environment.variables import PodObject, ResolvedPod
from pliant.embedded.kubelet.runtime.messages import AgentLost
from pliant.embedded.network.modes import NetworkContext, NetworkMode
from pliant.errors import PliantError

INITIAL_RESTART_BACKOFF_SECONDS = 1.0
"""Seconds before the first restart; doubled after every failed start."""
_MAX_RESTART_BACKOFF = 30.0
_MAX_FAILED_RESTARTS = 6
_STABLE_AFTER_SECONDS = 60.0
"""The failure count starts over after the agent has run for this long."""

log = logging.getLogger(__name__)


async def _ignore_restart() -> None: ...


class AgentSupervisor:
    """Keeps the node agent running; starts the network services of the pods again after every restart."""

    def __init__(self, mode: NetworkMode, https_server: HttpsServer, network_context: NetworkContext) -> None:
        self._mode = mode
        self._https_server = https_server
        self._network_context = network_context
        self._network_stack = AsyncExitStack()
        self._failures = 0
        self.pod_network: PodNetworkSetup
        self.on_restarted: Callable[[], Awaitable[None]] = _ignore_restart
        """Called after a restart; no container of the previous agent is left."""

    @classmethod
    @asynccontextmanager
    async def start_network_services(
        cls, mode: NetworkMode, https_server: HttpsServer, context: NetworkContext
    ) -> AsyncIterator[AgentSupervisor]:
        """Start the network services for an agent that is already running; `run` then supervises the agent."""
        supervisor = cls(mode, https_server, context)
        await supervisor._start_network()
        try:
            yield supervisor
        finally:
            await supervisor._network_stack.aclose()

    async def run(self) -> None:
        """Restart the agent whenever it dies; raise AgentLost after too many failed restarts."""
        loop = asyncio.get_running_loop()
        while True:
            started_at = loop.time()
            with suppress(AgentLost):
                await self._mode.agent.raise_when_lost()
            self._failures = 1 if loop.time() - started_at > _STABLE_AFTER_SECONDS else self._failures + 1
            reason = "the node agent exited, and all pods with it"
            await self._network_stack.aclose()
            while not await self._restart_agent(reason):
                self._failures += 1
            await self.on_restarted()

    async def _restart_agent(self, reason: str) -> bool:
        if self._failures > _MAX_FAILED_RESTARTS:
            raise AgentLost(f"{reason}; {_MAX_FAILED_RESTARTS} restarts in a row failed")
        backoff = min(INITIAL_RESTART_BACKOFF_SECONDS * 2 ** (self._failures - 1), _MAX_RESTART_BACKOFF)
        log.error("node agent lost", extra={"reason": reason, "retry_in": f"{backoff:g}s"})
        await asyncio.sleep(backoff)
        try:
            await self._mode.agent.restart()
            await self._start_network()
        except (PliantError, OSError) as error:
            log.error("node agent not started", extra={"error": str(error), "attempt": self._failures})
            return False
        log.warning("node agent restarted", extra={"attempt": self._failures})
        return True

    async def _start_network(self) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._mode.serve_api_to_pods(self._https_server))
            self.pod_network = await stack.enter_async_context(self._mode.serve_pod_network(self._network_context))
            self._network_stack = stack.pop_all()


class CurrentPodNetworkSetup:
    """Delegates to the pod network of the agent that is running now; a restart replaces it."""

    def __init__(self, supervisor: AgentSupervisor) -> None:
        self._supervisor = supervisor

    def write_network_files(self, pod: PodObject, hostname: str, pod_ip: str, pod_dir: Path) -> None:
        self._supervisor.pod_network.write_network_files(pod, hostname, pod_ip, pod_dir)

    def network_file_mounts(self, pod_dir: Path) -> Iterator[Mount]:
        return self._supervisor.pod_network.network_file_mounts(pod_dir)

    def network_variables(self, resolved_pod: ResolvedPod) -> Mapping[str, str]:
        return self._supervisor.pod_network.network_variables(resolved_pod)

    def rewrite_hostnames(self, content: bytes) -> bytes:
        return self._supervisor.pod_network.rewrite_hostnames(content)

    def unmountable_path_warnings(self, pod_spec: Mapping[str, Any]) -> list[str]:
        return self._supervisor.pod_network.unmountable_path_warnings(pod_spec)
