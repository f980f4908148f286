"""The two ways in which pods are connected; one is chosen when a cluster starts, and stays."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

from pliant.embedded.agent.sandbox import GATEWAY
from pliant.embedded.names import API_ADDRESS, API_PORT, Names
from pliant.embedded.network.balancer import Balancer
from pliant.embedded.network.directory import Directory
from pliant.embedded.network.routes import Egress
from pliant.embedded.network.servicelinks import service_variables
from pliant.embedded.network.serving import private_network
from pliant.embedded.node.hostagent import HostAgent
from pliant.embedded.node.link import Launch, NodeAgent
from pliant.embedded.node.locality import HostNetwork, Locality, Pod
from pliant.embedded.server.http import HttpFront
from pliant.errors import NotPossibleHere

Wish = Literal["private", "host", ""]
"""A network of its own for every pod, this machine's for all, or the first where that is possible."""
HOSTS: Final = (GATEWAY, API_ADDRESS)
"""What pods may call the API server beside its usual names."""
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A cluster as far as its network is concerned."""

    data: Path
    url: str
    """Where the API is for everybody on this machine."""
    names: Names
    egress: Egress


class Mode(Protocol):
    """How pods reach each other, the API and the world."""

    @property
    def agent(self) -> NodeAgent:
        """Who runs them."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def notice(self) -> str:
        """What people must know who did not choose it; nothing when all is as usual."""

    def serving(self, site: Site) -> AbstractAsyncContextManager[Locality]:
        """All that the network offers, as pods are told of it."""

    def doors(self, front: HttpFront) -> AbstractAsyncContextManager[None]:
        """Ways for pods to the API server, open for as long as the context lasts."""

    def api(self, url: str) -> tuple[str, int]:
        """Where pods reach it; others do at the address."""


@dataclass(frozen=True, slots=True)
class PrivateMode:
    """Every pod has a network of its own."""

    agent: NodeAgent
    name: str = "private"
    notice: str = ""

    def serving(self, site: Site) -> AbstractAsyncContextManager[Locality]:
        """Names, services and a way out on the bridge."""
        return private_network(self.agent, site.names, site.egress, site.data)

    @asynccontextmanager
    async def doors(self, front: HttpFront) -> AsyncIterator[None]:
        """Listen on the bridge, and at the address of the service `kubernetes`."""
        assert self.agent.listener is not None
        at_service = await self.agent.open_socket("stream", API_ADDRESS, API_PORT)
        async with front.listening(self.agent.listener), front.listening(at_service):
            yield

    def api(self, url: str) -> tuple[str, int]:
        """At that service."""
        return API_ADDRESS, API_PORT


@dataclass(frozen=True, slots=True)
class HostMode:
    """All pods share the network of this machine, at an address of the loopback each."""

    agent: HostAgent
    reason: str
    """Why nothing better is to be had; nothing when it was asked for."""
    name: str = "host"

    @property
    def notice(self) -> str:
        """What is different, and how to change that."""
        if not self.reason:
            return ""
        return f"pods share this machine's network and files (docs/embedded.md, Without namespaces): {self.reason}"

    @asynccontextmanager
    async def serving(self, site: Site) -> AsyncIterator[Locality]:
        """Services at addresses of the loopback, and names in words; the way out is this machine's."""
        if not site.egress.outside:
            because = f"; {self.reason}" if self.reason else ""
            raise NotPossibleHere(
                f"--no-egress cannot be kept where pods share this machine's network: leave it out{because}"
            )
        directory = Directory(site.names, self.agent.allotment)
        self.agent.spoken = directory.spoken
        self.agent.spoken_nearby = directory.spoken_nearby
        self.agent.memory = site.data / "memory"
        async with Balancer.serving(self.agent, site.names):
            links = partial(_links, site, self.agent)
            yield HostNetwork(url=site.url, directory=directory, links=links, environment=os.environ)

    def doors(self, front: HttpFront) -> AbstractAsyncContextManager[None]:
        """They are where everybody's are."""
        return nullcontext()

    def api(self, url: str) -> tuple[str, int]:
        """Where everybody reaches it."""
        return _LOOPBACK, urlsplit(url).port or API_PORT


def _links(site: Site, agent: HostAgent, pod: Pod) -> dict[str, str]:
    """What pods are told of services; the API is somewhere else for everybody here."""
    found = service_variables(site.names, pod, agent.allotment.of_service)
    return {name: value for name, value in found.items() if not name.startswith("KUBERNETES_")}


@asynccontextmanager
async def mode_started(launch: Launch, wish: Wish) -> AsyncIterator[Mode]:
    """An agent that is ready, in the mode that was wished for, or else in the best that this machine allows."""
    async with AsyncExitStack() as stack:
        yield await _entered(stack, launch, wish)


async def _entered(stack: AsyncExitStack, launch: Launch, wish: Wish) -> Mode:
    reason = ""
    if wish != "host":
        try:
            return PrivateMode(await stack.enter_async_context(NodeAgent.started(launch)))
        except NotPossibleHere as problem:
            if wish == "private":
                raise
            reason = str(problem)
    return HostMode(await stack.enter_async_context(HostAgent.started(replace(launch, network="host"))), reason)
