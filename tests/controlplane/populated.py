"""A real control plane with all that training jobs need: our kinds, controllers, a scheduler and a node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, contextmanager

from pliant.cli.cluster.apply import install_crds
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.runtime.clock import SystemClock
from tests.controlplane.cluster import ControlPlane, started


@contextmanager
def populated() -> Iterator[ControlPlane]:
    """Only an operator is missing."""
    with started(controllers=False) as plane:
        # Before the garbage collector looks for kinds, which it does every 30 seconds.
        asyncio.run(_install_crds(plane))
        plane.start_controllers()
        plane.start_scheduler()
        plane.start_node()
        yield plane


async def _install_crds(plane: ControlPlane) -> None:
    async with aclosing(create_transport(plane.kubeconfig, None, SystemClock().now)) as transport:
        await install_crds(KubeClient(transport))
