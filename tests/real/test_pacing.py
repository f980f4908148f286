"""Two hundred pods on a server that takes one or two writes at a time: with pace, and without."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import pytest

from pliant.errors import AlreadyExists, TooManyRequests
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS
from pliant.kube.transport.metered import ApiCallLabels, MeteredTransport
from pliant.kube.transport.write_limiter import MAX_WRITES_IN_FLIGHT, AdaptiveWriteLimiter
from pliant.runtime.clock import SystemClock
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.overload import crowded

pytestmark = pytest.mark.real

COUNT = 200


@pytest.fixture
async def admin(real_kubeconfig: Path) -> AsyncIterator[KubeClient]:
    async with aclosing(create_transport(real_kubeconfig, None, SystemClock().now)) as transport:
        yield KubeClient(transport)


@pytest.fixture
async def namespace(admin: KubeClient) -> AsyncIterator[str]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    await admin.create(NAMESPACES, None, {"metadata": {"name": name}})
    with suppress(AlreadyExists):  # pods need it, and the controllers are not that fast
        await admin.create(SERVICE_ACCOUNTS, name, {"metadata": {"name": "default"}})
    yield name
    await admin.delete(NAMESPACES, None, name)


def pod(name: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "x"}]
    spec = {"containers": containers, "automountServiceAccountToken": False, "nodeName": "nowhere"}
    return {"metadata": {"name": name}, "spec": spec}


class Tally:
    """Counts answers by their status."""

    def __init__(self) -> None:
        self.codes: Counter[str] = Counter()

    def note(self, call: ApiCallLabels, seconds: float) -> None:
        self.codes[call.code] += 1


async def made(client: KubeClient, namespace: str, at_once: asyncio.Semaphore) -> tuple[int, float]:
    """How many of the pods could be created by those who share so many places, and how long that took."""
    clock = asyncio.get_running_loop().time

    async def one(index: int) -> bool:
        async with at_once:
            try:
                await client.create(PODS, namespace, pod(f"p{index}"))
            except TooManyRequests:
                return False
            return True

    began = clock()
    ends = await asyncio.gather(*(one(index) for index in range(COUNT)))
    return sum(ends), clock() - began


# tests/kube/test_pacing.py shows the pace, tests/real/test_client.py the answers of an overloaded server.
@pytest.mark.deep
async def test_with_pace_few_pods_are_turned_away_and_all_are_made(
    plane: ControlPlane, admin: KubeClient, namespace: str
) -> None:
    clock = asyncio.get_running_loop().time
    # Without a share a single request is let through: with more, a fast server may never have too many.
    async with crowded(plane, admin, "eager", shares=0) as transport:
        fixed, paced, pace = Tally(), Tally(), AdaptiveWriteLimiter()
        hasty = KubeClient(MeteredTransport(transport, fixed.note, clock))
        count, took = await made(hasty, namespace, asyncio.Semaphore(MAX_WRITES_IN_FLIGHT))
        print(f"fixed at {MAX_WRITES_IN_FLIGHT}: {count} made in {took:.2f}s, {dict(fixed.codes)}")
        await clear(admin, namespace)
        patient = KubeClient(MeteredTransport(transport, paced.note, clock), write_limiter=pace)
        count, took = await made(patient, namespace, asyncio.Semaphore(COUNT))
        print(f"paced: {count} made in {took:.2f}s, {dict(paced.codes)}, limit {pace.limit:.1f}")
    # Who is turned away too often is left to the next look, as a very slow server may have it.
    assert count >= 0.9 * COUNT
    # How many are turned away without pace depends on how fast the server is, and how busy.
    assert paced.codes["429"] == pace.throttled_count < COUNT


async def clear(admin: KubeClient, namespace: str) -> None:
    for found in (await admin.list(PODS, namespace)).items:
        await admin.delete(PODS, namespace, found["metadata"]["name"], grace_period_seconds=0)
