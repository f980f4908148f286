"""What the containers of one running pod share, and how all of them are told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from pliant.embedded.gpus import GpuDesk
from pliant.embedded.node.confignews import ConfigNews
from pliant.embedded.node.configuration import Configuration
from pliant.embedded.node.cpus import CpuDesk
from pliant.embedded.node.environment import PodFacts
from pliant.embedded.node.furnishing import Furnishing
from pliant.embedded.node.inputs import Inputs
from pliant.embedded.node.link import NodeAgent
from pliant.embedded.node.podevents import PodEvents
from pliant.embedded.node.podlogs import PodLogs
from pliant.embedded.node.reporting import StatusReport
from pliant.embedded.node.volumes import Laid
from pliant.embedded.server.lifecycle import timestamp
from pliant.embedded.views import PodMeta, PodView, host_name
from pliant.kube.client import KubeClient
from pliant.runtime.clock import Clock


def _at_once() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServices:
    """What every pod on a node makes use of."""

    client: KubeClient
    clock: Clock
    agent: NodeAgent
    furnishing: Furnishing
    logs: PodLogs
    events: PodEvents
    inputs: Inputs = field(default_factory=Inputs)
    cpus: CpuDesk = field(default_factory=CpuDesk)
    news: ConfigNews = field(default_factory=ConfigNews)
    gpus: GpuDesk = field(default_factory=lambda: GpuDesk({}))
    surveyed: asyncio.Event = field(default_factory=_at_once)
    """Set when all is known that pods are told of when they start, above all services."""


class PodScope:
    """One pod while it is on a node."""

    def __init__(self, pod: PodView, services: NodeServices, capacity: Mapping[str, str]) -> None:
        self.meta: PodMeta = pod.metadata
        self.host = host_name(pod)
        self.services = services
        self.capacity = capacity
        self.configuration = Configuration(services.client, pod.metadata.namespace)
        self.report = StatusReport(pod.metadata, services.client, services.clock, services.agent.address)
        self.facts: PodFacts | None = None
        self.laid: Mapping[str, Laid] = {}
        self.stopping = asyncio.Event()
        self.running: set[str] = set()
        self._is_killed = False
        self._deadline: asyncio.TimerHandle | None = None

    def now(self) -> str:
        """The time as statuses tell it."""
        return timestamp(self.services.clock.now())

    async def warn(self, reason: str, message: str) -> None:
        """Tell those who look at the pod of a problem."""
        if self.report.audible.is_set():
            await self.services.events.warn(self.meta, reason, message)

    async def tell(self, reason: str, message: str) -> None:
        """Tell those who look at the pod of something that is in order."""
        if self.report.audible.is_set():
            await self.services.events.tell(self.meta, reason, message)

    def stop(self, grace: float) -> None:
        """Have everything in the pod end within `grace` seconds; asking again can only shorten that.

        Containers hear of it by `stopping` and see to their own end; what is left of them then is killed.
        """
        loop = asyncio.get_running_loop()
        if self._deadline is None or loop.time() + grace < self._deadline.when():
            self.forget_deadline()
            self._deadline = loop.call_later(grace, self._kill)
        self.stopping.set()

    def note_running(self, run: str) -> None:
        """A container has started, perhaps after all were killed."""
        self.running.add(run)
        if self._is_killed:
            self.services.agent.send_signal(self.meta.uid, run, signal.SIGKILL)

    def forget_deadline(self) -> None:
        """There is nothing left to kill, or another time for it."""
        if self._deadline is not None:
            self._deadline.cancel()

    async def until_stopped(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait for something, but not beyond the request to stop."""
        async with asyncio.TaskGroup() as tasks:
            both = {tasks.create_task(waiting), tasks.create_task(_wait(self.stopping))}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for each in both:
                each.cancel()

    def _kill(self) -> None:
        self._is_killed = True
        for run in sorted(self.running):
            self.services.agent.send_signal(self.meta.uid, run, signal.SIGKILL)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
