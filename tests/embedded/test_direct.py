from __future__ import annotations

import asyncio

import pytest

from pliant.embedded.apiserver.auth.users import UserInfo
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.errors import Unreachable
from pliant.kube.transport.base import Reply, Request
from tests.embedded.serving import serving
from tests.virtual_time import on_virtual_time


@on_virtual_time
async def test_a_direct_call_gives_up_in_time_like_one_over_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as server:

        async def stall(request: Request, user: UserInfo) -> Reply:
            await asyncio.Event().wait()
            raise AssertionError

        monkeypatch.setattr(server.api, "handle", stall)
        request = Request(method="GET", path="/api", timeout=3)
        with pytest.raises(Unreachable, match="GET /api: request timed out"):
            await server.transport.send(request)
        with pytest.raises(Unreachable, match="request timed out"):
            async with server.transport.stream(request):
                pass
    assert asyncio.get_running_loop().time() == 6


async def test_a_closed_transport_reaches_nobody() -> None:
    async with serving() as server:
        transport = InProcessTransport(server.api)
        await transport.aclose()
        with pytest.raises(Unreachable, match="closed"):
            await transport.send(Request(method="GET", path="/api"))
