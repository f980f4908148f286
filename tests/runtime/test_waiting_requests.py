"""Requests whose responses take long: they wait as long as they may, and no longer than their clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pliant.runtime import http_server
from pliant.runtime.http_server import EventualResponse, HttpRequest, HttpResponse, serve_requests

LARGE = b"x" * 4_000_000


class Desk:
    """Answers `/wait` when it is told to, and others at once."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.waiting = 0
        self.port = 0

    def handle(self, request: HttpRequest) -> EventualResponse:
        if request.path == "/large":
            return HttpResponse(parts=(b"<", LARGE, b">"))
        return self._wait() if request.path == "/wait" else HttpResponse(f"{request.path} {request.query}")

    async def _wait(self) -> HttpResponse:
        self.waiting += 1
        try:
            await self.go.wait()
        finally:
            self.waiting -= 1
        return HttpResponse("done")

    async def request(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return reader, writer

    async def get(self, path: str) -> bytes:
        reader, writer = await self.request(path)
        try:
            return await reader.read()
        finally:
            writer.close()

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(5):
            while self.waiting != count:  # noqa: ASYNC110
                await asyncio.sleep(0.005)


@asynccontextmanager
async def serving() -> AsyncIterator[Desk]:
    desk, listener = Desk(), socket.create_server(("127.0.0.1", 0))
    desk.port = listener.getsockname()[1]
    async with serve_requests(desk.handle, listener):
        yield desk


async def test_a_request_has_a_query() -> None:
    async with serving() as desk:
        assert (await desk.get("/a?b=c&d")).endswith(b"\r\n\r\n/a b=c&d\n")


async def test_a_response_may_take_longer_than_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_SECONDS", 0.05)
    async with serving() as desk:
        waiting = asyncio.create_task(desk.get("/wait"))
        await asyncio.sleep(0.2)
        desk.go.set()
        assert (await waiting).endswith(b"done\n")


async def test_a_response_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "RESPONSE_TIMEOUT_SECONDS", 0.05)
    async with serving() as desk:
        assert await desk.get("/wait") == b""
        await desk.wait_for(0)


async def test_a_client_that_disconnects_stops_waiting_at_once() -> None:
    async with serving() as desk:
        clients = [await desk.request("/wait") for _ in range(3)]
        await desk.wait_for(3)
        clients[0][1].close()
        await desk.wait_for(2)
        clients[1][1].transport.abort()
        await desk.wait_for(1)
        desk.go.set()
        assert (await clients[2][0].read()).endswith(b"done\n")
        clients[2][1].close()


async def test_idle_connections_do_not_push_out_requests_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 2)
    async with serving() as desk:
        waiting = []
        for number in range(8):
            waiting.append(asyncio.create_task(desk.get("/wait")))
            await desk.wait_for(number + 1)
        idle = [await asyncio.open_connection("127.0.0.1", desk.port) for _ in range(6)]
        assert (await desk.get("/now")).endswith(b"/now\n")
        assert desk.waiting == 8
        desk.go.set()
        assert all(each.endswith(b"done\n") for each in await asyncio.gather(*waiting))
        for _, writer in idle:
            writer.close()


async def test_the_number_of_requests_that_wait_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MAX_AUTHORIZED_CONNECTIONS", 2)
    async with serving() as desk:
        waiting = [asyncio.create_task(desk.get("/wait")) for _ in range(2)]
        await desk.wait_for(2)
        assert (await desk.get("/wait")).startswith(b"HTTP/1.1 503 ")
        desk.go.set()
        await asyncio.gather(*waiting)
        assert (await desk.get("/wait")).endswith(b"done\n")


async def test_a_large_response_arrives_in_full() -> None:
    async with serving() as desk:
        response = await desk.get("/large")
        assert response.endswith(b"\r\n\r\n<" + LARGE + b">")
        assert f"Content-Length: {len(LARGE) + 2}\r\n".encode() in response


async def test_a_client_that_does_not_read_its_response_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_SECONDS", 0.1)
    async with serving() as desk:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", desk.port))
        client.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.5)
        client.setblocking(True)
        received = 0
        with client:
            while chunk := await asyncio.to_thread(_receive, client):
                received += len(chunk)
        assert received < len(LARGE)


def _receive(client: socket.socket) -> bytes:
    try:
        return client.recv(65536)
    except ConnectionResetError:
        return b""
