from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

import pytest
from aiohttp import web

from pliant.errors import LeaseLost, Unreachable
from pliant.kube.auth.credentials import ANONYMOUS_CREDENTIAL, Credential
from pliant.kube.client import KubeClient
from pliant.kube.election.lease import FencedTransport, LeaseFence
from pliant.kube.resources import PODS
from pliant.kube.transport.http import ApiServerEndpoint, HttpTransport
from tests.kube.test_http import served


class Uptime:
    """Passes only when told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class SlowLogin:
    """Takes its time to find a credential."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self.wait = wait

    async def credential(self) -> Credential:
        self.wait()
        return ANONYMOUS_CREDENTIAL

    async def renew_after_rejection(self, refused: Credential) -> bool:
        self.wait()
        return True


def test_a_fence_is_closed_until_opened_and_closes_by_itself() -> None:
    uptime = Uptime()
    fence = LeaseFence(uptime)
    with pytest.raises(LeaseLost):
        fence.require_lease_seconds()
    fence.allow_until(deadline=1010, lease_end=1015)
    assert (fence.seconds_until_deadline(), fence.require_lease_seconds()) == (10, 15)
    uptime.seconds = 1009.999
    assert fence.require_lease_seconds() == pytest.approx(5.001)
    uptime.seconds = 1010
    with pytest.raises(LeaseLost):
        fence.require_lease_seconds()


def test_a_fence_closed_on_purpose_stays_closed() -> None:
    fence = LeaseFence(Uptime())
    fence.allow_until(deadline=1010, lease_end=1015)
    fence.block()
    with pytest.raises(LeaseLost):
        fence.require_lease_seconds()


@pytest.mark.parametrize("status", [200, 401])
async def test_nothing_is_sent_when_the_lease_ends_between_the_decision_and_the_connection(status: int) -> None:
    """Logging in may take seconds, and a process can be stopped in the middle of it."""
    uptime, arrived = Uptime(), list[str]()
    fence = LeaseFence(uptime)
    fence.allow_until(deadline=1010, lease_end=1015)

    async def answer(request: web.Request) -> web.Response:
        arrived.append(request.method)
        return web.json_response({}, status=status)

    def pass_time() -> None:
        # The first time to log in; or, if the server refuses, the second.
        uptime.seconds += 20 if status == 200 or arrived else 0

    async with served(answer) as url:
        transport = HttpTransport(ApiServerEndpoint(url=url, credentials=SlowLogin(pass_time)))
        client = KubeClient(FencedTransport(transport, fence))
        with pytest.raises(LeaseLost):
            await client.delete(PODS, "default", "a")
        assert arrived == ([] if status == 200 else ["DELETE"])
        fence.allow_until(deadline=uptime.seconds + 100, lease_end=uptime.seconds + 150)
        if status == 200:
            await client.delete(PODS, "default", "a")
            assert arrived == ["DELETE"]
        await transport.aclose()


async def test_no_stream_is_opened_when_the_lease_ends_meanwhile() -> None:
    uptime, arrived = Uptime(), list[str]()
    fence = LeaseFence(uptime)
    fence.allow_until(deadline=1010, lease_end=1015)

    async def answer(request: web.Request) -> web.Response:
        arrived.append(request.method)
        return web.json_response({})

    def pass_time() -> None:
        uptime.seconds += 20

    async with served(answer) as url:
        transport = HttpTransport(ApiServerEndpoint(url=url, credentials=SlowLogin(pass_time)))
        with pytest.raises(LeaseLost):
            await anext(KubeClient(FencedTransport(transport, fence)).watch(PODS, resource_version="1"))
        assert arrived == []
        await transport.aclose()


@pytest.mark.parametrize("moment", [1, 2, 3])
async def test_not_a_byte_of_a_write_leaves_once_the_lease_has_ended(moment: int) -> None:
    """However late that is: before the connection, after it, or when the loop gets round to the body."""
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = await reader.read(1000)
        writer.close()
        await writer.wait_closed()
        received.put_nowait(heard)

    looks = count(1)
    fence = LeaseFence(lambda: 2000 if next(looks) >= moment else 1000)
    fence.allow_until(deadline=1010, lease_end=1015)
    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    transport = HttpTransport(ApiServerEndpoint(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    client = KubeClient(FencedTransport(transport, fence))
    with pytest.raises((LeaseLost, Unreachable), match="another process may be leading"):
        await client.create(PODS, "default", {"metadata": {"name": "a"}})
    assert next(looks) == moment + 1
    await transport.aclose()
    if moment > 1:
        assert await received.get() == b""
    server.close()
    await server.wait_closed()
