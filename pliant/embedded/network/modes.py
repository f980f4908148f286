"""Private and host network mode of pods, and the network services of each."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

from pliant.embedded.agent.network.sandbox import GATEWAY_ADDRESS
from pliant.embedded.apiserver.http.https_server import HttpsServer
from pliant.embedded.kubelet.environment.pod_network import HostPodNetworkSetup, PodNetworkSetup, PrivatePodNetworkSetup
from pliant.embedded.kubelet.environment.variables import PodObject
from pliant.embedded.kubelet.runtime.agent_process import AgentOptions
from pliant.embedded.kubelet.runtime.host_agent import LoopbackNodeAgentClient
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from pliant.embedded.network.dns_server import DnsServer
from pliant.embedded.network.dns_upstream import UpstreamResolver
from pliant.embedded.network.egress_connector import EgressConnector, EgressPolicy
from pliant.embedded.network.egress_manager import EgressManager
from pliant.embedded.network.host_network import ClusterHostnameRewriter
from pliant.embedded.network.service_discovery import service_variables
from pliant.embedded.network.service_index import API_SERVICE_IP, API_SERVICE_PORT, ServiceIndex
from pliant.embedded.network.service_proxy import ServiceProxy
from pliant.errors import UnsupportedEnvironment

NetworkModeChoice = Literal["private", "host", ""]
"""Empty chooses `private` where possible, otherwise `host`."""
POD_FACING_API_ADDRESSES: Final = (GATEWAY_ADDRESS, API_SERVICE_IP)
"""Addresses of the API server for pods; its certificate must include them."""
_LOOPBACK = "127.0.0.1"
_FALLBACK_DOC = "(docs/embedded.md, Without namespaces)"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkContext:
    data_dir: Path
    api_url: str
    """URL of the API server for programs on the host."""
    service_index: ServiceIndex
    egress: EgressPolicy


class NetworkMode(Protocol):
    @property
    def agent(self) -> NodeAgentClient: ...

    @property
    def name(self) -> str: ...

    @property
    def fallback_notice(self) -> str:
        """What users should know if the mode was chosen for them; otherwise empty."""

    def serve_pod_network(self, context: NetworkContext) -> AbstractAsyncContextManager[PodNetworkSetup]:
        """Run the network services of pods."""

    def serve_api_to_pods(self, https_server: HttpsServer) -> AbstractAsyncContextManager[None]:
        """Make the API server listen where pods can reach it."""

    def api_address_for_pods(self, api_url: str) -> tuple[str, int]:
        """Return the address at which pods reach the API server; `api_url` is that for programs on the host."""


@dataclass(frozen=True, slots=True)
class PrivateNetworkMode:
    """Every pod has its own network namespace."""

    agent: NodeAgentClient
    name: str = "private"
    fallback_notice: str = ""

    @asynccontextmanager
    async def serve_pod_network(self, context: NetworkContext) -> AsyncIterator[PodNetworkSetup]:
        agent, index, data_dir = self.agent, context.service_index, context.data_dir
        async with serve_network_services(agent, index, context.egress, data_dir / "outside") as egress_manager:
            variables = partial(service_variables, index, map_address=str)
            yield PrivatePodNetworkSetup(
                agent.gateway_address, data_dir, egress_manager.proxy_variables_if_needed, variables
            )

    @asynccontextmanager
    async def serve_api_to_pods(self, https_server: HttpsServer) -> AsyncIterator[None]:
        """Listen on the bridge, and at the address of the service `kubernetes`."""
        assert self.agent.api_listener is not None
        at_service = await self.agent.open_socket("stream", API_SERVICE_IP, API_SERVICE_PORT)
        async with (
            https_server.temporary_listener(self.agent.api_listener),
            https_server.temporary_listener(at_service),
        ):
            yield

    def api_address_for_pods(self, api_url: str) -> tuple[str, int]:
        return API_SERVICE_IP, API_SERVICE_PORT


@dataclass(frozen=True, slots=True)
class HostNetworkMode:
    """All pods share the network of the host; each has its own loopback address."""

    agent: LoopbackNodeAgentClient
    fallback_reason: str
    """Why the private mode is not possible; empty if the user chose the host mode."""
    name: str = "host"

    @property
    def fallback_notice(self) -> str:
        if not self.fallback_reason:
            return ""
        return f"pods use the host network and filesystem {_FALLBACK_DOC}: {self.fallback_reason}"

    @asynccontextmanager
    async def serve_pod_network(self, context: NetworkContext) -> AsyncIterator[PodNetworkSetup]:
        """Serve cluster IPs at loopback addresses; the agent rewrites hostnames, and egress is that of the host."""
        if not context.egress.allow_external:
            reason = f"; {self.fallback_reason}" if self.fallback_reason else ""
            raise UnsupportedEnvironment(
                f"--no-egress cannot be enforced when pods use the host network: remove the option{reason}"
            )
        rewriter = ClusterHostnameRewriter(context.service_index, self.agent.address_pool)
        self.agent.rewrite_hostnames = rewriter.rewrite_hostnames
        self.agent.rewrite_short_hostnames = rewriter.rewrite_hostnames_and_services
        self.agent.memory_dir = context.data_dir / "memory"
        async with ServiceProxy.serve(self.agent, context.service_index):
            variables = partial(_pod_service_variables, context, self.agent)
            yield HostPodNetworkSetup(
                api_url=context.api_url, hostname_rewriter=rewriter, service_variables=variables, process_env=os.environ
            )

    def serve_api_to_pods(self, https_server: HttpsServer) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def api_address_for_pods(self, api_url: str) -> tuple[str, int]:
        return _LOOPBACK, urlsplit(api_url).port or API_SERVICE_PORT


def _pod_service_variables(context: NetworkContext, agent: LoopbackNodeAgentClient, pod: PodObject) -> dict[str, str]:
    """Return the service variables without those of the API server, which has another address here."""
    variables = service_variables(context.service_index, pod, agent.address_pool.map_service_address)
    return {name: value for name, value in variables.items() if not name.startswith("KUBERNETES_")}


@asynccontextmanager
async def start_agent_for_mode(agent_options: AgentOptions, choice: NetworkModeChoice) -> AsyncIterator[NetworkMode]:
    """Start the node agent in the chosen mode, or in the best one that the host supports."""
    async with AsyncExitStack() as stack:
        reason = ""
        if choice != "host":
            try:
                agent = await stack.enter_async_context(NodeAgentClient.start(agent_options))
            except UnsupportedEnvironment as error:
                if choice == "private":
                    raise
                reason = str(error)
            else:
                yield PrivateNetworkMode(agent)
                return
        host_options = replace(agent_options, network_mode="host")
        yield HostNetworkMode(await stack.enter_async_context(LoopbackNodeAgentClient.start(host_options)), reason)


@asynccontextmanager
async def serve_network_services(
    agent: NodeAgentClient, service_index: ServiceIndex, egress: EgressPolicy, state_dir: Path
) -> AsyncIterator[EgressManager]:
    """Run the DNS server, the service proxy and egress; `state_dir` is for the files of egress."""
    upstream = UpstreamResolver.from_host() if egress.allow_external else UpstreamResolver(())
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(DnsServer.serve(agent, service_index, upstream))
        await stack.enter_async_context(ServiceProxy.serve(agent, service_index))
        connector = EgressConnector(agent, service_index, upstream, egress)
        yield await stack.enter_async_context(EgressManager.serve(agent, connector, egress, state_dir))
