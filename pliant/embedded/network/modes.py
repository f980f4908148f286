"""The two ways in which pods are connected; one is chosen when a cluster starts, and stays."""

from __future__ import annotations

import os
import resource
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

from pliant.embedded.agent.network.sandbox import GATEWAY_ADDRESS
from pliant.embedded.apiserver.http.https_server import HttpsServer
from pliant.embedded.kubelet.environment.pod_network import HostPodNetwork, PodNetwork, PodObject, PrivatePodNetwork
from pliant.embedded.kubelet.runtime.host_agent import HostNetworkAgent
from pliant.embedded.kubelet.runtime.node_agent import AgentOptions, NodeAgent
from pliant.embedded.network.dns_server import DnsServer
from pliant.embedded.network.dns_upstream import UpstreamResolver
from pliant.embedded.network.egress_connector import EgressConnector, EgressPolicy
from pliant.embedded.network.egress_manager import EgressManager
from pliant.embedded.network.hostname_rewriter import ClusterHostnameRewriter
from pliant.embedded.network.service_discovery import service_variables
from pliant.embedded.network.service_index import API_SERVICE_IP, API_SERVICE_PORT, ServiceIndex
from pliant.embedded.network.service_proxy import ServiceProxy
from pliant.errors import UnsupportedEnvironment

NetworkModeChoice = Literal["private", "host", ""]
"""A network of its own for every pod, this machine's for all, or the first where that is possible."""
API_SERVER_ADDRESSES: Final = (GATEWAY_ADDRESS, API_SERVICE_IP)
"""What pods may call the API server beside its usual names."""
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkContext:
    """A cluster as far as its network is concerned."""

    data_dir: Path
    api_url: str
    """Where the API is for everybody on this machine."""
    service_index: ServiceIndex
    egress: EgressPolicy


class NetworkMode(Protocol):
    """How pods reach each other, the API and the world."""

    @property
    def agent(self) -> NodeAgent:
        """Who runs them."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def fallback_notice(self) -> str:
        """What people must know who did not choose it; nothing when all is as usual."""

    def serve_network(self, context: NetworkContext) -> AbstractAsyncContextManager[PodNetwork]:
        """All that the network offers, as pods are told of it."""

    def serve_api(self, http_front: HttpsServer) -> AbstractAsyncContextManager[None]:
        """Ways for pods to the API server, open for as long as the context lasts."""

    def api_address(self, api_url: str) -> tuple[str, int]:
        """Where pods reach it; others do at the address."""


@dataclass(frozen=True, slots=True)
class PrivateNetworkMode:
    """Every pod has a network of its own."""

    agent: NodeAgent
    name: str = "private"
    fallback_notice: str = ""

    def serve_network(self, context: NetworkContext) -> AbstractAsyncContextManager[PodNetwork]:
        """Names, services and a way out on the bridge."""
        return serve_private_network(self.agent, context.service_index, context.egress, context.data_dir)

    @asynccontextmanager
    async def serve_api(self, http_front: HttpsServer) -> AsyncIterator[None]:
        """Listen on the bridge, and at the address of the service `kubernetes`."""
        assert self.agent.listener is not None
        at_service = await self.agent.open_socket("stream", API_SERVICE_IP, API_SERVICE_PORT)
        async with http_front.temporary_listener(self.agent.listener), http_front.temporary_listener(at_service):
            yield

    def api_address(self, api_url: str) -> tuple[str, int]:
        """At that service."""
        return API_SERVICE_IP, API_SERVICE_PORT


@dataclass(frozen=True, slots=True)
class HostNetworkMode:
    """All pods share the network of this machine, at an address of the loopback each."""

    agent: HostNetworkAgent
    fallback_reason: str
    """Why nothing better is to be had; nothing when it was asked for."""
    name: str = "host"

    @property
    def fallback_notice(self) -> str:
        """What is different, and how to change that."""
        if not self.fallback_reason:
            return ""
        where = "(docs/embedded.md, Without namespaces)"
        return f"pods share this machine's network and files {where}: {self.fallback_reason}"

    @asynccontextmanager
    async def serve_network(self, context: NetworkContext) -> AsyncIterator[PodNetwork]:
        """Services at addresses of the loopback, and names in words; the way out is this machine's."""
        if not context.egress.allow_external:
            because = f"; {self.fallback_reason}" if self.fallback_reason else ""
            raise UnsupportedEnvironment(
                f"--no-egress cannot be kept where pods share this machine's network: leave it out{because}"
            )
        directory = ClusterHostnameRewriter(context.service_index, self.agent.address_pool)
        self.agent.rewrite_hostnames = directory.rewrite_hostnames
        self.agent.rewrite_short_hostnames = directory.rewrite_service_names
        self.agent.memory_dir = context.data_dir / "memory"
        async with ServiceProxy.serve(self.agent, context.service_index):
            links = partial(_pod_service_variables, context, self.agent)
            yield HostPodNetwork(
                api_url=context.api_url, hostname_rewriter=directory, service_variables=links, process_env=os.environ
            )

    def serve_api(self, http_front: HttpsServer) -> AbstractAsyncContextManager[None]:
        """They are where everybody's are."""
        return nullcontext()

    def api_address(self, api_url: str) -> tuple[str, int]:
        """Where everybody reaches it."""
        return _LOOPBACK, urlsplit(api_url).port or API_SERVICE_PORT


def _pod_service_variables(context: NetworkContext, agent: HostNetworkAgent, pod: PodObject) -> dict[str, str]:
    """What pods are told of services; the API is somewhere else for everybody here."""
    found = service_variables(context.service_index, pod, agent.address_pool.map_service_address)
    return {name: value for name, value in found.items() if not name.startswith("KUBERNETES_")}


@asynccontextmanager
async def start_network_mode(launch: AgentOptions, choice: NetworkModeChoice) -> AsyncIterator[NetworkMode]:
    """An agent that is ready, in the mode that was wished for, or else in the best that this machine allows."""
    async with AsyncExitStack() as stack:
        yield await _enter_network_mode(stack, launch, choice)


async def _enter_network_mode(stack: AsyncExitStack, launch: AgentOptions, choice: NetworkModeChoice) -> NetworkMode:
    reason = ""
    if choice != "host":
        try:
            return PrivateNetworkMode(await stack.enter_async_context(NodeAgent.start(launch)))
        except UnsupportedEnvironment as problem:
            if choice == "private":
                raise
            reason = str(problem)
    return HostNetworkMode(
        await stack.enter_async_context(HostNetworkAgent.start(replace(launch, network_mode="host"))), reason
    )


@asynccontextmanager
async def serve_private_network(
    agent: NodeAgent, service_index: ServiceIndex, egress: EgressPolicy, data_dir: Path
) -> AsyncIterator[PrivatePodNetwork]:
    """A network for pods that is served, as they are told of it."""
    async with serve_network_services(agent, service_index, egress, data_dir / "outside") as way_out:
        links = partial(service_variables, service_index, map_address=str)
        yield PrivatePodNetwork(agent.address, data_dir, way_out.proxy_environment, links)


@asynccontextmanager
async def serve_network_services(
    agent: NodeAgent, service_index: ServiceIndex, egress: EgressPolicy, state_dir: Path
) -> AsyncIterator[EgressManager]:
    """Names that are answered, services that are reached, and a way out of the pods' network, made in `folder`."""
    _raise_open_file_limit()
    upstream = UpstreamResolver.from_host() if egress.allow_external else UpstreamResolver(())
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(DnsServer.serve(agent, service_index, upstream))
        await stack.enter_async_context(ServiceProxy.serve(agent, service_index))
        routes = EgressConnector(agent, service_index, upstream, egress)
        yield await stack.enter_async_context(EgressManager.serve(agent, routes, egress, state_dir))


def _raise_open_file_limit() -> None:
    """Let this process hold as many connections as it may: each one that is led on takes two descriptors."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
