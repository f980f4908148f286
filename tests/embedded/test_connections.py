"""Clients that only hold connections: others go on being answered."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pliant.embedded.apiserver.http import connections, incoming_body
from pliant.embedded.apiserver.http.https_server import bind_loopback_socket
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import CONFIG_MAPS
from pliant.runtime import accept
from pliant.runtime.clock import SystemClock
from tests.crowd import crowd, few_open_files
from tests.embedded.serving import TOKEN, Served, config, reachable, serving

ANSWER_SECONDS = 20.0  # far more than an answer takes, also on a busy machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    served: Served
    port: int
    kubeconfig: Path
    trust: ssl.SSLContext

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KubeClient]:
        """A client with connections of its own."""
        transport = create_transport(self.kubeconfig, None, SystemClock().now)
        try:
            yield KubeClient(transport)
        finally:
            await transport.aclose()

    async def create(self, name: str) -> None:
        async with asyncio.timeout(ANSWER_SECONDS), self.client() as client:
            await client.create(CONFIG_MAPS, "default", config(name))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)


@asynccontextmanager
async def serve(folder: Path) -> AsyncIterator[Server]:
    async with serving() as served, reachable(served.api, folder) as at:
        trust = ssl.create_default_context(cadata=at.authority.decode())
        yield Server(served=served, port=int(at.url.rpartition(":")[2]), kubeconfig=at.kubeconfig, trust=trust)


@pytest.mark.parametrize(
    ("kind", "count"), [("silent", 1200), ("half a handshake", 300), ("slow headers", 220), ("slow bodies", 220)]
)
async def test_a_crowd_of_idle_connections_keeps_nobody_out(
    tmp_path: Path, kind: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    with few_open_files(200):
        await _work_beside_a_crowd(tmp_path, kind, count)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def _work_beside_a_crowd(folder: Path, kind: str, count: int) -> None:
    async with serve(folder) as server:
        seen: asyncio.Queue[str] = asyncio.Queue()

        async def watch(client: KubeClient, version: str) -> None:
            async for event in client.watch(CONFIG_MAPS, "default", resource_version=version):
                seen.put_nowait((event.object or {})["metadata"]["name"])

        async with server.client() as watching:
            watcher = asyncio.create_task(watch(watching, str(server.served.api.store.committed.version)))
            await server.create("before")
            assert await asyncio.wait_for(seen.get(), ANSWER_SECONDS) == "before"
            async with crowd(server.port, count, kind):
                for number in range(3):
                    await server.create(f"during-{number}")
                    assert await asyncio.wait_for(seen.get(), ANSWER_SECONDS) == f"during-{number}"
            watcher.cancel()


async def test_a_connection_without_a_request_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNAUTHENTICATED_TIMEOUT_SECONDS", 0.3)
    async with serve(tmp_path) as server:
        for sent in (b"", b"GET /api HTTP/1.1\r\nHost: local"):
            reader, writer = await server.connect()
            writer.write(sent)
            assert await _read_to_end(reader) == b""
            writer.close()
        plain, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert await _read_to_end(plain) == b""
        writer.close()


async def test_an_authenticated_connection_may_wait_between_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "UNAUTHENTICATED_TIMEOUT_SECONDS", 0.3)
    async with serve(tmp_path) as server:
        reader, writer = await server.connect()
        for wait in (0.6, 0.0):
            writer.write(f"GET /version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            # The page is public: another one shows the token.
            writer.write(f"GET /api HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            for _ in range(2):
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), ANSWER_SECONDS)
                assert head.startswith(b"HTTP/1.1 200")
                length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
                await reader.readexactly(int(length.split()[1]))
            await asyncio.sleep(wait)
        writer.close()


async def test_the_oldest_idle_connection_is_closed_when_all_are_authenticated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "max_connections", lambda: 4)
    async with serve(tmp_path) as server:
        opened = [await _authenticated(server) for _ in range(6)]
        for reader, _ in opened[:2]:
            assert await _read_to_end(reader) == b""
        for reader, writer in opened[2:]:
            assert not reader.at_eof()
            writer.close()


async def test_headers_are_bounded_in_total(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        reader, writer = await server.connect()
        writer.write(b"GET /api HTTP/1.1\r\nHost: localhost\r\n")
        for number in range(100):
            writer.write(f"X-{number}: {'x' * 60_000}\r\n".encode())
        assert await _read_to_end(reader) == b""
        writer.close()


async def test_a_slow_body_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming_body, "BODY_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(incoming_body, "DISCARD_TIMEOUT_SECONDS", 0.1)
    async with serve(tmp_path) as server:
        reader, writer = await server.connect()
        head = f"POST {CONFIG_MAPS.path('default')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        answer = await _read_to_end(reader)
        assert answer.startswith(b"HTTP/1.1 408")
        writer.close()


async def test_a_listener_without_descriptors_waits_and_logs_little(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = 0

    async def refuse(listener: object) -> None:
        nonlocal attempts
        attempts += 1
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(accept, "ACCEPT_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(asyncio.get_running_loop(), "sock_accept", refuse)
    with bind_loopback_socket() as listener, pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await accept.accept_connections(listener, _ignore)
    assert 1 <= attempts <= 7
    assert len(caplog.records) == attempts


def _ignore(connection: object) -> None:
    raise AssertionError("nothing was accepted")


async def _authenticated(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await server.connect()
    writer.write(f"GET /nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), ANSWER_SECONDS)
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
    await reader.readexactly(int(length.split()[1]))
    return reader, writer


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(), ANSWER_SECONDS)
    except ConnectionError:
        return b""
