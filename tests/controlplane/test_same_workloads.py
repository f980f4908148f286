"""Deployments and Jobs live the same lives on the embedded cluster and with kube-controller-manager."""

from __future__ import annotations

import asyncio

import pytest

from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.controllers.workloads.manager import WorkloadManager
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.runtime.clock import SystemClock
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.rollouts import Object, live

pytestmark = pytest.mark.real


async def test_both_clusters_lead_workloads_to_the_same_state(plane: ControlPlane) -> None:
    transport = create_transport(plane.kubeconfig, None, SystemClock().now)
    try:
        real, embedded = await asyncio.gather(live(KubeClient(transport)), live_on_embedded())
    finally:
        await transport.aclose()
    different = {name: (real.get(name), embedded.get(name)) for name in real.keys() | embedded.keys()}
    different = {name: both for name, both in different.items() if both[0] != both[1]}
    assert not different, "\n".join(f"{name}\n  real     {a}\n  embedded {b}" for name, (a, b) in different.items())


async def live_on_embedded() -> Object:
    clock = SystemClock()
    async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), clock) as api:
        client = KubeClient(InProcessTransport(api))
        controllers = asyncio.create_task(WorkloadManager(client, clock, api.store).run())
        try:
            return await live(client)
        finally:
            controllers.cancel()
