"""The state that the containers of a running pod share, and how the pod is stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pliant.embedded.kubelet.environment.config_objects import ConfigReader, ConfigWatch
from pliant.embedded.kubelet.environment.host_ports import HostPortRegistry
from pliant.embedded.kubelet.environment.variables import MissingConfig, ResolvedPod
from pliant.embedded.kubelet.logs.pod_logs import PodLogStore
from pliant.embedded.kubelet.logs.retained_logs import RetainedLogStore
from pliant.embedded.kubelet.pods.event_recorder import PodEventRecorder
from pliant.embedded.kubelet.pods.status_writer import PodStatusWriter
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from pliant.embedded.kubelet.runtime.resources import CpuAllocator
from pliant.embedded.kubelet.runtime.streams import StdinRegistry
from pliant.embedded.kubelet.volumes.pod_filesystem import PodFilesystem
from pliant.embedded.kubelet.volumes.pod_volumes import PreparedVolumes
from pliant.embedded.object_views import PodObjectMeta, PodView, pod_hostname
from pliant.embedded.scheduler.gpu_allocation import GpuAllocator
from pliant.kube.client import KubeClient
from pliant.kube.timestamps import format_timestamp
from pliant.runtime.clock import Clock


async def _publish_nowhere(pod: PodObjectMeta, address: str) -> None: ...


def _new_set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletDependencies:
    """What all pods of the kubelet share."""

    client: KubeClient
    clock: Clock
    agent: NodeAgentClient
    filesystem: PodFilesystem
    logs: PodLogStore
    retained_logs: RetainedLogStore | None = None
    """Takes over the logs of deleted pods; by default they are deleted with the pod."""
    events: PodEventRecorder
    stdin: StdinRegistry = field(default_factory=StdinRegistry)
    cpu_allocator: CpuAllocator = field(default_factory=CpuAllocator)
    config_watch: ConfigWatch = field(default_factory=ConfigWatch)
    gpus: GpuAllocator = field(default_factory=lambda: GpuAllocator({}))
    host_ports: HostPortRegistry = field(default_factory=HostPortRegistry)
    publish_address: Callable[[PodObjectMeta, str], Awaitable[None]] = _publish_nowhere
    """Lets the names of a pod resolve to its address."""
    services_synced: asyncio.Event = field(default_factory=_new_set_event)
    """Set when the services that pods find in their environment are known."""
    node_client: Callable[[str], KubeClient] | None = None
    """Returns the client of a node, with the identity of its kubelet; by default, nodes share `client`."""

    def for_node(self, node: str) -> KubeletDependencies:
        """Return the dependencies of the pods of a node."""
        if self.node_client is None:
            return self
        client = self.node_client(node)
        return replace(self, client=client, events=self.events.with_client(client))


class PodContext:
    """One pod on a node."""

    def __init__(self, pod: PodView, deps: KubeletDependencies, node_capacity: Mapping[str, str]) -> None:
        self.meta: PodObjectMeta = pod.metadata
        self.hostname = pod_hostname(pod)
        self.deps = deps
        self.node_capacity = node_capacity
        self.config_reader = ConfigReader(deps.client, pod.metadata.namespace)
        self.status_writer = PodStatusWriter(pod.metadata, deps.client, deps.clock, deps.agent.gateway_address)
        self.resolved_pod: ResolvedPod
        self.volumes: PreparedVolumes = {}
        self.stopping = asyncio.Event()
        self.running_containers: set[str] = set()
        self._is_killed = False
        self._kill_timer: asyncio.TimerHandle | None = None

    def now_timestamp(self) -> str:
        return format_timestamp(self.deps.clock.now())

    async def emit_warning(self, reason: str, message: str) -> None:
        if self.status_writer.node_connected.is_set():
            await self.deps.events.emit_warning(self.meta, reason, message)

    async def emit_normal(self, reason: str, message: str) -> None:
        if self.status_writer.node_connected.is_set():
            await self.deps.events.emit_normal(self.meta, reason, message)

    def stop_containers(self, grace_period: float) -> None:
        """Stop all containers within the grace period; a further call can only shorten it.

        `stopping` makes each container terminate itself; those that still run after the grace period are killed.
        """
        loop = asyncio.get_running_loop()
        if self._kill_timer is None or loop.time() + grace_period < self._kill_timer.when():
            self.cancel_kill_timer()
            self._kill_timer = loop.call_later(grace_period, self._kill_containers)
        self.stopping.set()

    def register_running_container(self, run_name: str) -> None:
        """Note that a container was started, and kill it if the grace period is over."""
        self.running_containers.add(run_name)
        if self._is_killed:
            self.deps.agent.signal_container(self.meta.uid, run_name, signal.SIGKILL)

    def cancel_kill_timer(self) -> None:
        if self._kill_timer is not None:
            self._kill_timer.cancel()

    async def run_until_stopped(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Wait for a coroutine, and cancel it if the pod is stopped first."""
        async with asyncio.TaskGroup() as tasks:
            waits: list[asyncio.Task[Any]] = [tasks.create_task(coroutine), tasks.create_task(self.stopping.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()

    async def wait_for_config(self, missing: MissingConfig) -> None:
        """Wait until a missing ConfigMap or Secret has changed, or the pod is stopped."""
        observed = self.resolved_pod.config_data
        await self.run_until_stopped(self.config_reader.wait_for_change(missing.kind, missing.name, observed))

    async def refresh_config_data(self) -> None:
        """Read the ConfigMaps and Secrets of the pod again."""
        config_data = await self.config_reader.read_referenced(self.resolved_pod.pod["spec"])
        self.resolved_pod = self.resolved_pod.with_config_data(config_data)

    def _kill_containers(self) -> None:
        self._is_killed = True
        for run_name in sorted(self.running_containers):
            self.deps.agent.signal_container(self.meta.uid, run_name, signal.SIGKILL)
