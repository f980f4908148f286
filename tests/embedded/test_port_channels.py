"""Ports are forwarded over the channels of a WebSocket, as the Python clients of Kubernetes ask for them."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pliant.kube.resources import PODS
from tests.embedded.serving import TOKEN, pod, reachable, serving

PATH = "/api/v1/namespaces/default/pods/a/portforward"
V4, BASE64 = "v4.channel.k8s.io", "v4.base64.channel.k8s.io"
ECHO, TALKER, DEAF, GREETER = 7, 19, 9, 17
CHUNK = 1 << 20
MOST_IN_FLIGHT = 16 * CHUNK
"""Bytes that buffers of sockets may hold; a server without back pressure takes all it can get."""


class LoopbackPods:
    """A node whose pods listen on four ports: one echoes, one talks without end, one never reads, one says hello."""

    def __init__(self) -> None:
        self.sent = 0
        self.open_connections = 0
        self.finished = asyncio.Event()

    async def start(self) -> AsyncIterator[None]:
        handlers = {ECHO: self._echo, TALKER: self._talk, DEAF: self._ignore, GREETER: self._greet}
        servers = {port: await asyncio.start_server(each, "127.0.0.1", 0) for port, each in handlers.items()}
        self._ports = {port: server.sockets[0].getsockname()[1] for port, server in servers.items()}
        yield
        self.finished.set()
        for server in servers.values():
            server.close()
            await server.wait_closed()

    async def connect_to_port(
        self, pod: dict[str, Any], port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._ports.get(port, 1))

    def open_session(self, *_: Any) -> Any:
        raise NotImplementedError

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_connections += 1
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        self.open_connections -= 1
        writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:
                writer.write(b"x" * CHUNK)
                await writer.drain()
                self.sent += CHUNK
        writer.close()

    async def _ignore(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await self.finished.wait()
        writer.transport.abort()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()


class PortClient:
    def __init__(self, node: LoopbackPods, http: aiohttp.ClientSession, url: str, trust: ssl.SSLContext) -> None:
        self.node, self.http, self._url, self._trust = node, http, url, trust

    def connect(self, *ports: int | str, protocol: str | None = V4) -> Any:
        query = "&".join(f"ports={port}" for port in ports)
        protocols = (protocol,) if protocol else ()
        return self.http.ws_connect(f"{self._url}{PATH}?{query}", protocols=protocols, ssl=self._trust, max_msg_size=0)


@pytest.fixture
async def port_client(tmp_path: Path) -> AsyncIterator[PortClient]:
    node = LoopbackPods()
    listening = node.start()
    await anext(listening)
    async with serving() as server:
        server.api.session_source = node
        await server.client.create(PODS, "default", pod())
        await server.client.patch(PODS, "default", "a", {"status": {"phase": "Running"}}, subresource="status")
        async with reachable(server.api, tmp_path) as at:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with aiohttp.ClientSession(headers=headers) as http, asyncio.timeout(20):
                trust = ssl.create_default_context(cadata=at.authority.decode())
                yield PortClient(node, http, at.url, trust)
    await anext(listening, None)


def announcements(*ports: int) -> list[bytes]:
    channels = ((2 * index + kind, port) for index, port in enumerate(ports) for kind in (0, 1))
    return [bytes([channel]) + port.to_bytes(2, "little") for channel, port in channels]


@pytest.mark.parametrize("protocol", [V4, None])
async def test_each_port_has_two_channels_that_begin_with_its_number(
    port_client: PortClient, protocol: str | None
) -> None:
    async with port_client.connect(ECHO, f"{ECHO},{GREETER}", protocol=protocol) as socket:
        assert socket.protocol == protocol
        assert [await socket.receive_bytes() for _ in range(6)] == announcements(ECHO, ECHO, GREETER)
        assert await socket.receive_bytes() == b"\4hello"
        for index, text in ((1, b"two"), (0, b"one"), (1, b"three")):
            await socket.send_bytes(bytes([2 * index]) + text)
            assert await socket.receive_bytes() == bytes([2 * index]) + text
        for unused in (b"\1error channels are read-only", b"\x63no such channel", b""):
            await socket.send_bytes(unused)
        await socket.send_bytes(b"\0end")
        assert await socket.receive_bytes() == b"\0end"


async def test_the_base64_form_is_text(port_client: PortClient) -> None:
    async with port_client.connect(ECHO, protocol=BASE64) as socket:
        port = base64.b64encode(ECHO.to_bytes(2, "little")).decode()
        assert [await socket.receive_str(), await socket.receive_str()] == [f"0{port}", f"1{port}"]
        await socket.send_str("0" + base64.b64encode(b"\0\xff").decode())
        assert await socket.receive_str() == "0" + base64.b64encode(b"\0\xff").decode()


async def test_a_port_without_a_listener_is_an_error_of_its_channel_alone(port_client: PortClient) -> None:
    async with port_client.connect(2, ECHO) as socket:
        assert [await socket.receive_bytes() for _ in range(4)] == announcements(2, ECHO)
        assert await socket.receive_bytes() == b"\1error forwarding port 2 to the pod: connection refused"
        await socket.send_bytes(b"\0lost")
        await socket.send_bytes(b"\2kept")
        assert await socket.receive_bytes() == b"\2kept"


async def test_the_websocket_is_closed_when_all_ports_are(port_client: PortClient) -> None:
    async with port_client.connect(GREETER, 2) as socket:
        received = [message.data async for message in socket]
    assert received[:4] == announcements(GREETER, 2)
    assert sorted(received[4:])[0] == b"\0hello"
    assert len(received) == 6


async def test_a_client_that_hangs_up_closes_its_connections(port_client: PortClient) -> None:
    async with port_client.connect(ECHO) as socket:
        await socket.send_bytes(b"\0x")
        assert [(await socket.receive_bytes())[1:] for _ in range(3)][2] == b"x"
        assert port_client.node.open_connections == 1
    while port_client.node.open_connections:  # noqa: ASYNC110 - the fixture has a timeout
        await asyncio.sleep(0.01)


async def test_a_client_that_does_not_read_holds_the_pod_back(port_client: PortClient) -> None:
    async with port_client.connect(TALKER):
        before = -1
        while port_client.node.sent > before:
            before = port_client.node.sent
            await asyncio.sleep(0.3)
        assert 0 < before < MOST_IN_FLIGHT


async def test_a_pod_that_does_not_read_holds_the_client_back(port_client: PortClient) -> None:
    async with port_client.connect(DEAF) as socket:
        sending = asyncio.create_task(send_without_end(socket))
        _, is_held_back = await asyncio.wait({sending}, timeout=0.5)
        assert is_held_back
        port_client.node.finished.set()  # the pod ends, and with it the connection
        await asyncio.wait({sending})


async def send_without_end(socket: aiohttp.ClientWebSocketResponse) -> None:
    for _ in range(4 * MOST_IN_FLIGHT // CHUNK):
        await socket.send_bytes(b"\0" + bytes(CHUNK))


@pytest.mark.parametrize("query", ["", "0", "65536", "-1", "http", "80,", ",".join(map(str, range(1, 70)))])
async def test_invalid_ports_are_refused(port_client: PortClient, query: str) -> None:
    ports = [query] if query else []
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await port_client.connect(*ports)
    assert refusal.value.status == 400
