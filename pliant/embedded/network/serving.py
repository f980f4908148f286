"""Everything that the network of pods offers, up for as long as a cluster is."""

from __future__ import annotations

import resource
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from pliant.embedded.names import Names
from pliant.embedded.network.balancer import Balancer
from pliant.embedded.network.dns import DnsServer
from pliant.embedded.network.routes import Egress, Routes
from pliant.embedded.network.servicelinks import service_variables
from pliant.embedded.network.upstream import Upstream
from pliant.embedded.network.wayout import WayOut
from pliant.embedded.node.link import NodeAgent
from pliant.embedded.node.locality import OwnNetwork


@asynccontextmanager
async def private_network(agent: NodeAgent, names: Names, egress: Egress, data: Path) -> AsyncIterator[OwnNetwork]:
    """A network for pods that is served, as they are told of it."""
    async with network_served(agent, names, egress, data / "outside") as way_out:
        links = partial(service_variables, names, located=str)
        yield OwnNetwork(agent.address, data, way_out.variables, links)


@asynccontextmanager
async def network_served(agent: NodeAgent, names: Names, egress: Egress, folder: Path) -> AsyncIterator[WayOut]:
    """Names that are answered, services that are reached, and a way out of the pods' network, made in `folder`."""
    _make_room()
    upstream = Upstream.of_this_machine() if egress.outside else Upstream(())
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(DnsServer.serving(agent, names, upstream))
        await stack.enter_async_context(Balancer.serving(agent, names))
        routes = Routes(agent, names, upstream, egress)
        yield await stack.enter_async_context(WayOut.serving(agent, routes, egress, folder))


def _make_room() -> None:
    """Let this process hold as many connections as it may: each one that is led on takes two descriptors."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
