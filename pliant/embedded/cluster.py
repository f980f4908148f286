"""A whole cluster in one process and its node agent: API server, scheduler, kubelet and names."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import Any, Protocol, TypeVar

from pliant.embedded.agent.sandbox import GATEWAY
from pliant.embedded.catalog.resources import Catalog
from pliant.embedded.claims import Claims, ClaimView
from pliant.embedded.evictions import Evictions
from pliant.embedded.gangs import DIALECTS, groups_of
from pliant.embedded.gpuhealth import GpuHealth
from pliant.embedded.gpuprobe import found_gpus
from pliant.embedded.gpus import GpuDesk, shared_out
from pliant.embedded.heartbeats import Heartbeats
from pliant.embedded.machines import capacity, register
from pliant.embedded.names import API_ADDRESS, Names
from pliant.embedded.names import API_PORT as SERVICE_PORT
from pliant.embedded.network.routes import Egress
from pliant.embedded.network.serving import network_served
from pliant.embedded.node.confignews import ConfigView
from pliant.embedded.node.credentials import Credentials
from pliant.embedded.node.environment import CONFIG_MAP, SECRET
from pliant.embedded.node.furnishing import Furnishing
from pliant.embedded.node.inotify import FileWatch
from pliant.embedded.node.inputs import Inputs
from pliant.embedded.node.kubelet import Kubelet
from pliant.embedded.node.link import Launch, Mount, NodeAgent
from pliant.embedded.node.podevents import PodEvents
from pliant.embedded.node.podlogs import PodLogs
from pliant.embedded.node.podscope import NodeServices
from pliant.embedded.node.sessions import NodeSessions
from pliant.embedded.node.usage import NodeUsage
from pliant.embedded.nodemarks import NodeMarks
from pliant.embedded.scheduler import NAME as SCHEDULER
from pliant.embedded.scheduler import Scheduler
from pliant.embedded.server.api import ApiServer
from pliant.embedded.server.certs import ServerIdentity, server_identity
from pliant.embedded.server.direct import DirectTransport
from pliant.embedded.server.http import HttpFront, loopback_socket
from pliant.embedded.server.kubeconfig import write_kubeconfig
from pliant.embedded.storage.store import Store
from pliant.embedded.views import PodView, ServiceView
from pliant.kube.client import KubeClient
from pliant.kube.informer import Informer
from pliant.kube.objects import Node
from pliant.kube.resources import CLAIMS, CONFIG_MAPS, NODES, PODS, SECRETS, SERVICES
from pliant.kube.transport import Transport
from pliant.runtime.clock import Clock, SystemClock

API_PORT = 6443
"""Where pods reach the API server, at the gateway's address."""
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """What cluster to start, and where."""

    data: Path
    """Everything the cluster writes is in here."""
    workspace: Path
    """Where containers start by default, and what hostPath volumes may show."""
    nodes: int = 1
    node_cpu: int | None = None
    node_memory: str | None = None
    node_gpu: int | None = None
    """GPUs of each node, pretended where the machine has too few; None shares out those it has."""
    port: int = 0
    durable: bool = True
    host_paths: tuple[Path, ...] = ()
    """What else hostPath volumes may show."""
    mounts: tuple[Mount, ...] = ()
    """What every container sees."""
    egress: Egress = field(default_factory=Egress)
    """What pods may reach beyond the cluster."""


class Worker(Protocol):
    """Works until cancelled."""

    async def run(self) -> None: ...


class EmbeddedCluster:
    """A cluster that is up for as long as its context lasts."""

    def __init__(self, transport: Transport, kubeconfig: Path, url: str, agent: NodeAgent) -> None:
        self.transport = transport
        self.kubeconfig = kubeconfig
        self.url = url
        self._agent = agent

    async def listener(self, port: int) -> tuple[str, socket]:
        """A socket that listens for pods, and the address by which they reach it."""
        return self._agent.address, await self._agent.open_socket("stream", self._agent.address, port)

    @classmethod
    @asynccontextmanager
    async def started(cls, config: ClusterConfig, *, clock: Clock | None = None) -> AsyncIterator[EmbeddedCluster]:
        """A cluster that is ready; at the end nothing of it runs, and its files stay in the data folder."""
        clock = clock or SystemClock()
        config.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with AsyncExitStack() as stack:
            # The agent starts while the certificates are made and the GPUs are counted.
            agent, identity, gpus = await asyncio.gather(
                stack.enter_async_context(NodeAgent.started(Launch(data=config.data, port=API_PORT))),
                asyncio.to_thread(server_identity, config.data, clock.now(), addresses=[GATEWAY, API_ADDRESS]),
                _gpus(config),
            )
            logs = PodLogs(config.data / "pods", stack.enter_context(closing(FileWatch())))
            store = await stack.enter_async_context(_store(config))
            api = await stack.enter_async_context(ApiServer.started(store, Catalog.standard(), clock, logs=logs))
            inputs = Inputs()
            api.sessions = NodeSessions(agent, logs, inputs)
            api.usage = NodeUsage(agent)
            url = await stack.enter_async_context(_doors(config, api, agent, identity))
            transport = DirectTransport(api)
            names = Names()
            await stack.enter_async_context(network_served(agent, names, config.egress))
            credentials = stack.enter_context(closing(Credentials(api.tokens, identity.authority)))
            client = KubeClient(transport)
            services = NodeServices(
                client=client,
                clock=clock,
                agent=agent,
                furnishing=_furnishing(config, credentials),
                logs=logs,
                inputs=inputs,
                events=PodEvents(client, clock, "kubelet"),
                gpus=gpus,
            )
            await stack.enter_async_context(_control_plane(config, services, names))
            yield cls(transport, config.data / "kubeconfig", url, agent)


@asynccontextmanager
async def _control_plane(config: ClusterConfig, services: NodeServices, names: Names) -> AsyncIterator[None]:
    """Nodes that are registered and pods that are placed, run and named."""
    client, clock = services.client, services.clock
    nodes = {
        name: capacity(cpu=config.node_cpu, memory=config.node_memory, gpu=len(gpus))
        for name, gpus in services.gpus.of_nodes.items()
    }
    await register(client, nodes, services.agent.address, clock.now())
    scheduler = Scheduler(client, clock, PodEvents(client, clock, SCHEDULER))
    kubelet, marks, evictions = Kubelet(services, nodes), NodeMarks(client, clock), Evictions(client, clock)
    claims = Claims(client, clock, services.furnishing)
    hearing = (names, kubelet, scheduler, evictions, claims)
    health = GpuHealth(client, clock, services.gpus)
    pods = Informer(client, PODS, PodView, on_change=_all(*(each.pod_changed for each in hearing)))
    beats = Heartbeats(services, kubelet, nodes, pods.store.all)
    watching = (scheduler, marks, evictions, health, beats)
    others: tuple[Informer[Any], ...] = (
        Informer(client, SERVICES, ServiceView, on_change=names.service_changed),
        Informer(client, CLAIMS, ClaimView, on_change=claims.claim_changed),
        Informer(client, CONFIG_MAPS, ConfigView, on_change=services.news.listener(CONFIG_MAP)),
        Informer(client, SECRETS, ConfigView, on_change=services.news.listener(SECRET)),
        Informer(client, NODES, Node, on_change=_all(*(each.node_changed for each in watching))),
        *(groups_of(each, client, scheduler.gangs) for each in DIALECTS),
    )
    workers: tuple[Worker, ...] = (kubelet, claims, scheduler.gangs, *watching, pods, *others)
    running = [services.agent.wait_lost(), *(each.run() for each in workers)]
    async with _background(running):
        for informer in (pods, *others):
            await informer.wait_synced()
        services.furnishing.forget_all_but({pod.metadata.uid for pod in pods.store.all()})
        yield


def _furnishing(config: ClusterConfig, credentials: Credentials) -> Furnishing:
    return Furnishing(
        data=config.data,
        workspace=config.workspace.resolve(),
        host_paths=config.host_paths,
        shown=config.mounts,
        base=_base_variables(os.environ),
        resolver=GATEWAY,
        credentials=credentials,
    )


async def _gpus(config: ClusterConfig) -> GpuDesk:
    """The nodes and the GPUs of each; those of the machine are looked for only where they may be wanted."""
    nodes = [f"node-{number}" for number in range(config.nodes)]
    real = [] if config.node_gpu == 0 else await found_gpus()
    return GpuDesk(shared_out(real, nodes, config.node_gpu))


@asynccontextmanager
async def _store(config: ClusterConfig) -> AsyncIterator[Store]:
    if not config.durable:
        yield Store.in_memory()
        return
    async with Store.opened(config.data / "cluster.db") as store:
        yield store


@asynccontextmanager
async def _doors(
    config: ClusterConfig, api: ApiServer, agent: NodeAgent, identity: ServerIdentity
) -> AsyncIterator[str]:
    """Listeners for this machine and for pods, with a key to them in the data folder; the address of the first."""
    token = secrets.token_urlsafe(32)
    hosts = (GATEWAY, API_ADDRESS)
    async with HttpFront.serving(api, token=token, context=identity.context(), hosts=hosts) as front:
        listener = loopback_socket(config.port)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        await front.listen(listener)
        await front.listen(agent.listener)
        await front.listen(await agent.open_socket("stream", API_ADDRESS, SERVICE_PORT))
        write_kubeconfig(config.data / "kubeconfig", url=url, authority=identity.authority, token=token)
        yield url


@asynccontextmanager
async def _background(jobs: Iterable[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Do jobs while the block runs; one that fails ends the block."""
    try:
        async with asyncio.TaskGroup() as tasks:
            started = [tasks.create_task(job) for job in jobs]
            try:
                yield
            finally:
                for each in started:
                    each.cancel()
    except BaseExceptionGroup as group:
        # What went wrong in the caller's block is the caller's own error, not a group of one.
        if len(group.exceptions) > 1:
            raise
        raise group.exceptions[0] from None


def _all(*listeners: Callable[[T | None, T | None], None]) -> Callable[[T | None, T | None], None]:
    def tell(old: T | None, new: T | None) -> None:
        for listener in listeners:
            listener(old, new)

    return tell


def _base_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What every container finds in its environment, taken from the one who started the cluster."""
    inherited = {name: environment[name] for name in _INHERITED if name in environment}
    # Last, so that there is always a `python` but never another one than the user means.
    path = [
        *filter(None, inherited.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":")),
        str(Path(sys.executable).parent),
    ]
    return {
        **inherited,
        "PATH": ":".join(dict.fromkeys(path)),
        "PYTHONUNBUFFERED": "1",
        "KUBERNETES_SERVICE_HOST": API_ADDRESS,
        "KUBERNETES_SERVICE_PORT": str(SERVICE_PORT),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(SERVICE_PORT),
    }
