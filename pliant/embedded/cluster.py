"""Starts an embedded cluster: API server, scheduler, controllers, kubelet and pod network."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from socket import socket

from pliant.embedded.agent.container.config import Mount
from pliant.embedded.agent_supervisor import AgentSupervisor, CurrentPodNetworkSetup
from pliant.embedded.apiserver.auth.cluster_credentials import (
    ServingCertificate,
    ensure_serving_certificate,
    write_kubeconfig,
)
from pliant.embedded.apiserver.auth.users import CONTROLLERS_USER, node_user, service_account_user
from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from pliant.embedded.apiserver.http.https_server import HttpsServer, bind_loopback_socket
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.control_plane import run_control_plane
from pliant.embedded.controllers.endpoint_slices import KubernetesServiceController
from pliant.embedded.controllers.gpu_health import discover_gpus
from pliant.embedded.controllers.node_lifecycle import resolve_node_capacity
from pliant.embedded.kubelet.environment.base_environment import base_environment
from pliant.embedded.kubelet.kubelet import Kubelet
from pliant.embedded.kubelet.logs.pod_logs import FileWatcher, PodLogStore
from pliant.embedded.kubelet.logs.retained_logs import RetainedLogStore
from pliant.embedded.kubelet.pods.context import KubeletDependencies
from pliant.embedded.kubelet.pods.event_recorder import PodEventRecorder
from pliant.embedded.kubelet.runtime.agent_process import AgentOptions
from pliant.embedded.kubelet.runtime.resources import ContainerUsageMeter
from pliant.embedded.kubelet.runtime.sessions import ContainerSessions
from pliant.embedded.kubelet.runtime.streams import StdinRegistry
from pliant.embedded.kubelet.volumes.pod_credentials import PodCredentials
from pliant.embedded.kubelet.volumes.pod_filesystem import PodFilesystem
from pliant.embedded.network.egress_connector import EgressPolicy
from pliant.embedded.network.modes import (
    POD_FACING_API_ADDRESSES,
    NetworkContext,
    NetworkMode,
    NetworkModeChoice,
    start_agent_for_mode,
)
from pliant.embedded.network.service_index import ServiceIndex
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.scheduler.gpu_allocation import GpuAllocator, assign_gpus_to_nodes
from pliant.embedded.storage.store import ChangeListener, Store
from pliant.embedded.storage.stored_objects import StoredObject
from pliant.kube.client import KubeClient
from pliant.kube.transport.base import Transport
from pliant.runtime.accept import raise_open_file_limit
from pliant.runtime.clock import Clock, SystemClock

API_PORT_FOR_PODS = 6443
"""Port at which pods reach the API server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    data_dir: Path
    workspace: Path
    """Default working directory of containers; hostPath volumes may mount it."""
    node_count: int = 1
    node_cpu: int | None = None
    node_memory: str | None = None
    node_gpu: int | None = None
    """GPUs of each node, simulated if the machine has too few; None distributes the GPUs of the machine."""
    port: int = 0
    durable: bool = True
    host_paths: tuple[Path, ...] = ()
    """Other paths that hostPath volumes may mount."""
    mounts: tuple[Mount, ...] = ()
    """Mounted in every container."""
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    network_mode: NetworkModeChoice = ""
    authorization_mode: AuthorizationMode = AuthorizationMode.RBAC
    dns_delay: float = 0.0
    """Seconds by which the names of pods are published late, for tests."""

    @property
    def database_path(self) -> Path:
        return self.data_dir / "cluster.db"


class EmbeddedCluster:
    def __init__(self, api: ApiServer, kubeconfig: Path, url: str, mode: NetworkMode, kubelet: Kubelet) -> None:
        self._api = api
        self._kubelet = kubelet
        self.transport: Transport = InProcessTransport(api)
        """Requests of the owner of the cluster."""
        self.kubeconfig = kubeconfig
        self.url = url
        self.mode = mode
        self.authorization_mode = api.authorizer.mode

    def transport_for_account(self, namespace: str, name: str) -> Transport:
        """Return a transport with the rights of a service account."""
        return InProcessTransport(self._api, service_account_user(namespace, name))

    def observe_objects(self, resource_key: str, on_commit: ChangeListener) -> tuple[StoredObject, ...]:
        """Return the objects of a resource; `on_commit` gets all later changes, before their writers get a response."""
        self._api.store.add_listener(on_commit)
        return tuple(self._api.store.committed.list_objects(resource_key))

    async def listen_for_pods(self, port: int) -> tuple[str, socket]:
        """Return a listening socket for pods, and the address at which pods reach it."""
        agent = self.mode.agent
        return agent.gateway_address, await agent.open_socket("stream", agent.gateway_address, port)

    async def stop_pods(self) -> None:
        """Terminate all pods within their grace periods; no pod starts any more."""
        await self._kubelet.shut_down()

    @classmethod
    @asynccontextmanager
    async def start(cls, config: ClusterConfig, *, clock: Clock | None = None) -> AsyncIterator[EmbeddedCluster]:
        """Start a cluster and wait until it is ready. Its files stay in `data_dir` after it stops."""
        clock = clock or SystemClock()
        config.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with AsyncExitStack() as stack:
            # The agent starts while the certificates are created, the GPUs are discovered, and the modules are imported
            # that the first write of an object with CEL rules needs.
            agent_options = AgentOptions(data_dir=config.data_dir, api_port=API_PORT_FOR_PODS)
            mode, certificate, gpus, _ = await asyncio.gather(
                stack.enter_async_context(start_agent_for_mode(agent_options, config.network_mode)),
                asyncio.to_thread(
                    ensure_serving_certificate, config.data_dir, clock.now(), extra_names=POD_FACING_API_ADDRESSES
                ),
                _create_gpu_allocator(config),
                asyncio.to_thread(import_module, "pliant.embedded.schema.rules.rule_validator"),
            )
            agent = mode.agent
            raise_open_file_limit()  # not before the agent has started: containers have the limit of the user
            logs = PodLogStore(config.data_dir / "pods", stack.enter_context(closing(FileWatcher())))
            store = (
                await stack.enter_async_context(Store.open(config.database_path))
                if config.durable
                else Store.in_memory()
            )
            retained_logs = RetainedLogStore(config.data_dir / "retained-logs", store, logs)
            await retained_logs.load()
            api = await stack.enter_async_context(
                ApiServer.start(
                    store,
                    KindRegistry.with_builtin_kinds(),
                    clock,
                    log_source=logs,
                    authorization_mode=config.authorization_mode,
                )
            )
            stdin = StdinRegistry()
            api.session_source = ContainerSessions(agent, logs, stdin)
            api.usage_source = ContainerUsageMeter(agent)
            api.node_log_source = retained_logs
            https_server, url = await stack.enter_async_context(_serve_https(config, api, certificate))
            service_index = ServiceIndex(config.dns_delay)
            network_context = NetworkContext(
                data_dir=config.data_dir, api_url=url, service_index=service_index, egress=config.egress
            )
            supervisor = await stack.enter_async_context(
                AgentSupervisor.start_network_services(mode, https_server, network_context)
            )
            credentials = stack.enter_context(closing(PodCredentials(api.tokens, certificate.ca_certificate, clock)))
            client = KubeClient(InProcessTransport(api, CONTROLLERS_USER))
            dependencies = KubeletDependencies(
                client=client,
                clock=clock,
                agent=agent,
                filesystem=PodFilesystem(
                    data_dir=config.data_dir,
                    default_working_dir=config.workspace.resolve(),
                    allowed_host_paths=config.host_paths,
                    default_mounts=config.mounts,
                    base_env=base_environment(os.environ, *mode.api_address_for_pods(url)),
                    pod_network=CurrentPodNetworkSetup(supervisor),
                    credentials=credentials,
                ),
                logs=logs,
                retained_logs=retained_logs,
                stdin=stdin,
                events=PodEventRecorder(client, clock, "kubelet"),
                gpus=gpus,
                publish_address=service_index.publish_address,
                services_synced=asyncio.Event(),
                node_client=lambda node: KubeClient(InProcessTransport(api, node_user(node))),
            )
            api_address = (
                (agent.gateway_address, API_PORT_FOR_PODS)
                if agent.api_listener is not None
                else mode.api_address_for_pods(url)
            )
            kubernetes_service = KubernetesServiceController(client, api_address)
            nodes = {
                name: resolve_node_capacity(cpu=config.node_cpu, memory=config.node_memory, gpu=len(node_gpus))
                for name, node_gpus in gpus.gpus_by_node.items()
            }
            kubelet = await stack.enter_async_context(
                run_control_plane(nodes, dependencies, api, service_index, supervisor, kubernetes_service)
            )
            yield cls(api, config.data_dir / "kubeconfig", url, mode, kubelet)


async def _create_gpu_allocator(config: ClusterConfig) -> GpuAllocator:
    nodes = [f"node-{number}" for number in range(config.node_count)]
    real = [] if config.node_gpu == 0 else await discover_gpus()
    return GpuAllocator(assign_gpus_to_nodes(real, nodes, config.node_gpu))


@asynccontextmanager
async def _serve_https(
    config: ClusterConfig, api: ApiServer, certificate: ServingCertificate
) -> AsyncIterator[tuple[HttpsServer, str]]:
    """Serve the API on a loopback port; yield the server and its URL, and write the kubeconfig."""
    token = secrets.token_urlsafe(32)
    async with HttpsServer.start(
        api,
        admin_token=token,
        create_ssl_context=certificate.create_ssl_context,
        allowed_hosts=POD_FACING_API_ADDRESSES,
    ) as https_server:
        listener = bind_loopback_socket(config.port)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        await https_server.add_listener(listener)
        write_kubeconfig(
            config.data_dir / "kubeconfig", url=url, ca_certificate=certificate.ca_certificate, token=token
        )
        yield https_server, url
