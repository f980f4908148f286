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

from pliant.embedded.agentkeeper import AgentKeeper, Around
from pliant.embedded.apiservice import ApiService
from pliant.embedded.budgetkeeper import BudgetKeeper, BudgetView
from pliant.embedded.catalog.resources import Catalog
from pliant.embedded.claims import Claims, ClaimView
from pliant.embedded.evictions import Evictions
from pliant.embedded.gangs import DIALECTS, groups_of
from pliant.embedded.gpuhealth import GpuHealth
from pliant.embedded.gpuprobe import found_gpus
from pliant.embedded.gpus import GpuDesk, shared_out
from pliant.embedded.heartbeats import Heartbeats
from pliant.embedded.machines import capacity, register
from pliant.embedded.modes import HOSTS, Mode, Site, Wish, mode_started
from pliant.embedded.names import Names
from pliant.embedded.network.routes import Egress
from pliant.embedded.node.confignews import ConfigView
from pliant.embedded.node.credentials import Credentials
from pliant.embedded.node.environment import CONFIG_MAP, SECRET
from pliant.embedded.node.furnishing import Furnishing
from pliant.embedded.node.inotify import FileWatch
from pliant.embedded.node.inputs import Inputs
from pliant.embedded.node.kubelet import Kubelet
from pliant.embedded.node.link import Launch, Mount
from pliant.embedded.node.locality import Locality
from pliant.embedded.node.podevents import PodEvents
from pliant.embedded.node.podlogs import PodLogs
from pliant.embedded.node.podscope import NodeServices
from pliant.embedded.node.sessions import NodeSessions
from pliant.embedded.node.usage import NodeUsage
from pliant.embedded.nodemarks import NodeMarks
from pliant.embedded.orphans import Orphans
from pliant.embedded.scheduler import NAME as SCHEDULER
from pliant.embedded.scheduler import Scheduler
from pliant.embedded.server.api import ApiServer
from pliant.embedded.server.certs import ServerIdentity, server_identity
from pliant.embedded.server.direct import DirectTransport
from pliant.embedded.server.http import HttpFront, loopback_socket
from pliant.embedded.server.kubeconfig import write_kubeconfig
from pliant.embedded.slices import Slices
from pliant.embedded.storage.store import Store
from pliant.embedded.views import PodView, ServiceView
from pliant.kube.client import KubeClient
from pliant.kube.informer import Informer
from pliant.kube.objects import Node
from pliant.kube.resources import CLAIMS, CONFIG_MAPS, DISRUPTION_BUDGETS, NODES, PODS, SECRETS, SERVICES
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
    network: Wish = ""


class Worker(Protocol):
    """Works until cancelled."""

    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Who names pods and services, and who keeps what they need around them."""

    names: Names
    keeper: AgentKeeper
    api: ApiService


class EmbeddedCluster:
    """A cluster that is up for as long as its context lasts."""

    def __init__(self, transport: Transport, kubeconfig: Path, url: str, mode: Mode) -> None:
        self.transport = transport
        self.kubeconfig = kubeconfig
        self.url = url
        self.mode = mode

    async def listener(self, port: int) -> tuple[str, socket]:
        """A socket that listens for pods, and the address by which they reach it."""
        agent = self.mode.agent
        return agent.address, await agent.open_socket("stream", agent.address, port)

    @classmethod
    @asynccontextmanager
    async def started(cls, config: ClusterConfig, *, clock: Clock | None = None) -> AsyncIterator[EmbeddedCluster]:
        """A cluster that is ready; at the end nothing of it runs, and its files stay in the data folder."""
        clock = clock or SystemClock()
        config.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with AsyncExitStack() as stack:
            # The agent starts while the certificates are made and the GPUs are counted.
            launch = Launch(data=config.data, port=API_PORT)
            mode, identity, gpus = await asyncio.gather(
                stack.enter_async_context(mode_started(launch, config.network)),
                asyncio.to_thread(server_identity, config.data, clock.now(), addresses=HOSTS),
                _gpus(config),
            )
            agent = mode.agent
            logs = PodLogs(config.data / "pods", stack.enter_context(closing(FileWatch())))
            store = await stack.enter_async_context(_store(config))
            api = await stack.enter_async_context(ApiServer.started(store, Catalog.standard(), clock, logs=logs))
            inputs = Inputs()
            api.sessions = NodeSessions(agent, logs, inputs)
            api.usage = NodeUsage(agent)
            front, url = await stack.enter_async_context(_doors(config, api, identity))
            transport = DirectTransport(api)
            names = Names()
            site = Site(data=config.data, url=url, names=names, egress=config.egress)
            keeper = await stack.enter_async_context(AgentKeeper.serving(mode, front, site))
            credentials = stack.enter_context(closing(Credentials(api.tokens, identity.authority)))
            client = KubeClient(transport)
            services = NodeServices(
                client=client,
                clock=clock,
                agent=agent,
                furnishing=_furnishing(config, Around(keeper), mode.api(url), credentials),
                logs=logs,
                inputs=inputs,
                events=PodEvents(client, clock, "kubelet"),
                gpus=gpus,
                surveyed=asyncio.Event(),
            )
            place = (agent.address, API_PORT) if agent.listener is not None else mode.api(url)
            network = Network(names=names, keeper=keeper, api=ApiService(client, place))
            await stack.enter_async_context(_control_plane(config, services, network))
            yield cls(transport, config.data / "kubeconfig", url, mode)


@asynccontextmanager
async def _control_plane(config: ClusterConfig, services: NodeServices, network: Network) -> AsyncIterator[None]:
    """Nodes that are registered and pods that are placed, run and named."""
    client, clock, names, keeper = services.client, services.clock, network.names, network.keeper
    nodes = {
        name: capacity(cpu=config.node_cpu, memory=config.node_memory, gpu=len(gpus))
        for name, gpus in services.gpus.of_nodes.items()
    }
    await register(client, nodes, services.agent.address, clock.now())
    scheduler = Scheduler(client, clock, PodEvents(client, clock, SCHEDULER))
    kubelet, marks, evictions = Kubelet(services, nodes), NodeMarks(client, clock), Evictions(client, clock)
    orphans, slices, budgets = Orphans(client, clock), Slices(client, names), BudgetKeeper(client, clock)
    claims = Claims(client, clock, services.furnishing)
    hearing = (names, slices, kubelet, scheduler, evictions, orphans, budgets, claims)
    health = GpuHealth(client, clock, services.gpus)
    pods = Informer(client, PODS, PodView, on_change=_all(*(each.pod_changed for each in hearing)))
    beats = Heartbeats(services, kubelet, nodes, pods.store.all)
    services.agent.on_lost, keeper.on_back = beats.agent_lost, beats.agent_is_back
    serving = (names, slices, network.api)
    watching = (scheduler, marks, evictions, orphans, health, beats)
    others: tuple[Informer[Any], ...] = (
        Informer(client, SERVICES, ServiceView, on_change=_all(*(each.service_changed for each in serving))),
        Informer(client, CLAIMS, ClaimView, on_change=claims.claim_changed),
        Informer(client, DISRUPTION_BUDGETS, BudgetView, on_change=budgets.budget_changed),
        Informer(client, CONFIG_MAPS, ConfigView, on_change=services.news.listener(CONFIG_MAP)),
        Informer(client, SECRETS, ConfigView, on_change=services.news.listener(SECRET)),
        Informer(client, NODES, Node, on_change=_all(*(each.node_changed for each in watching))),
        *(groups_of(each, client, scheduler.gangs) for each in DIALECTS),
    )
    workers: tuple[Worker, ...] = (
        kubelet,
        keeper,
        slices,
        budgets,
        network.api,
        claims,
        scheduler.gangs,
        *watching,
        pods,
        *others,
    )
    async with _background(each.run() for each in workers):
        for informer in (pods, *others):
            await informer.wait_synced()
        services.surveyed.set()
        services.furnishing.forget_all_but({pod.metadata.uid for pod in pods.store.all()})
        yield


def _furnishing(
    config: ClusterConfig, locality: Locality, api: tuple[str, int], credentials: Credentials
) -> Furnishing:
    return Furnishing(
        data=config.data,
        workspace=config.workspace.resolve(),
        host_paths=config.host_paths,
        shown=config.mounts,
        base=_base_variables(os.environ, *api),
        locality=locality,
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
    config: ClusterConfig, api: ApiServer, identity: ServerIdentity
) -> AsyncIterator[tuple[HttpFront, str]]:
    """A front that listens for this machine, and its address; the key to it is in the data folder."""
    token = secrets.token_urlsafe(32)
    async with HttpFront.serving(api, token=token, context=identity.context(), hosts=HOSTS) as front:
        listener = loopback_socket(config.port)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        await front.listen(listener)
        write_kubeconfig(config.data / "kubeconfig", url=url, authority=identity.authority, token=token)
        yield front, url


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


def _base_variables(environment: Mapping[str, str], api: str, port: int) -> dict[str, str]:
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
        "KUBERNETES_SERVICE_HOST": api,
        "KUBERNETES_SERVICE_PORT": str(port),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(port),
    }
