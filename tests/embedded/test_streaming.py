"""Sessions carry input, output, sizes and endings between kubectl's channels and a node."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from pliant.embedded.apiserver.streaming.sessions import STDERR, STDOUT, SessionOptions, SessionStartError
from pliant.kube.resources import PODS
from tests.embedded.serving import TOKEN, Reachable, pod, reachable, serving

PATH = "/api/v1/namespaces/default/pods/a"
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
RUNNING = {"running": {"startedAt": "2030-01-01T00:00:00Z"}}


class EchoSession:
    """Answers every line in capitals, complains of empty ones, and ends with the number of lines."""

    def __init__(self) -> None:
        self._streams: dict[int, asyncio.Queue[bytes]] = {each: asyncio.Queue() for each in (STDOUT, STDERR)}
        self._lines = 0
        self._over = asyncio.Event()

    async def read(self, stream: int) -> bytes:
        return await self._streams[stream].get()

    async def write(self, data: bytes) -> None:
        self._lines += 1
        self._streams[STDOUT if data.strip() else STDERR].put_nowait(data.upper() if data.strip() else b"empty\n")

    def close_input(self) -> None:
        for stream in self._streams.values():
            stream.put_nowait(b"")
        self._over.set()

    async def resize_terminal(self, columns: int, rows: int) -> None:
        self._streams[STDOUT].put_nowait(f"{columns}x{rows}\n".encode())

    async def wait_exit(self) -> int:
        await self._over.wait()
        return self._lines


class EchoSessionSource:
    """A node on which only `shout` is installed."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, SessionOptions]] = []
        self.open_sessions = 0
        self.emptied = asyncio.Event()

    async def connect_to_port(
        self, pod: dict[str, Any], port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ConnectionRefusedError(port)

    @asynccontextmanager
    async def open_session(
        self, pod: dict[str, Any], container: str, options: SessionOptions
    ) -> AsyncIterator[EchoSession]:
        self.requests.append((container, options))
        if options.command[:1] != ("shout",):
            raise SessionStartError(f'exec: "{options.command[0]}": executable file not found in $PATH')
        self.open_sessions += 1
        try:
            yield EchoSession()
        finally:
            self.open_sessions -= 1
            self.emptied.set()


class SessionClient:
    """A server with a running pod, and how to reach it."""

    def __init__(self, at: Reachable, http: aiohttp.ClientSession, node: EchoSessionSource) -> None:
        self._at = at
        self._tls = ssl.create_default_context(cadata=at.authority.decode())
        self.http = http
        self.node = node

    async def stop(self) -> None:
        """Stop the server while others still use it."""
        await self._at.front.stop()

    def connect(self, query: str, protocol: str = V5, part: str = "exec") -> Any:
        return self.http.ws_connect(f"{self._at.url}{PATH}/{part}?{query}", protocols=(protocol,), ssl=self._tls)

    async def request_error(self, query: str, method: str = "GET", part: str = "exec") -> dict[str, Any]:
        headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
        url = f"{self._at.url}{PATH}/{part}?{query}"
        async with self.http.request(method, url, headers=headers, ssl=self._tls) as answer:
            status: dict[str, Any] = await answer.json()
            assert status["code"] == answer.status
            return status


@pytest.fixture
async def session_client(tmp_path: Path) -> AsyncIterator[SessionClient]:
    node = EchoSessionSource()
    async with serving() as server:
        server.api.session_source = node
        await server.client.create(PODS, "default", pod())
        bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "n"}}
        await server.client.create(PODS, "default", bind, subresource="binding", name="a")
        main = {"name": "main", "state": RUNNING, "ready": True, "restartCount": 0, "image": "", "imageID": ""}
        status = {"status": {"containerStatuses": [main]}}
        await server.client.patch(PODS, "default", "a", status, subresource="status")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with reachable(server.api, tmp_path) as at, aiohttp.ClientSession(headers=headers) as http:
            yield SessionClient(at, http, node)


async def read_channels(socket: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    """All that a server says on each channel until it hangs up."""
    received: dict[int, bytes] = {}
    async with asyncio.timeout(5):
        async for message in socket:
            received[message.data[0]] = received.get(message.data[0], b"") + message.data[1:]
    return received


async def test_a_command_hears_its_input_and_tells_output_and_exit_code(session_client: SessionClient) -> None:
    async with session_client.connect("command=shout&command=-x&stdin=true&stdout=true&stderr=true") as socket:
        assert socket.protocol == V5
        await socket.send_bytes(b"\x00hello\n")
        await socket.send_bytes(b"\x00\n")
        await socket.send_bytes(b"\xff\x00")
        received = await read_channels(socket)
    assert (received[1], received[2]) == (b"HELLO\n", b"empty\n")
    outcome = msgspec.json.decode(received[3])
    assert (outcome["status"], outcome["reason"]) == ("Failure", "NonZeroExitCode")
    assert outcome["details"]["causes"] == [{"reason": "ExitCode", "message": "2"}]
    options = SessionOptions(command=("shout", "-x"), stdin=True, stdout=True, stderr=True)
    assert session_client.node.requests == [("main", options)]


async def test_a_command_without_input_finds_it_closed(session_client: SessionClient) -> None:
    async with session_client.connect("command=shout&stdout=1", V4) as socket:
        assert socket.protocol == V4
        assert msgspec.json.decode((await read_channels(socket))[3])["status"] == "Success"


async def test_a_terminal_is_told_its_size(session_client: SessionClient) -> None:
    async with session_client.connect("command=shout&stdin=1&stdout=1&stderr=1&tty=1") as socket:
        await socket.send_bytes(b'\x04{"Width":120,"Height":40}')
        await socket.send_bytes(b"\x04nonsense")
        await socket.send_bytes(b"\xff\x00")
        assert (await read_channels(socket))[1] == b"120x40\n"
    assert not session_client.node.requests[0][1].stderr, "a terminal has one output"


async def test_a_command_that_cannot_start_says_why(session_client: SessionClient) -> None:
    async with session_client.connect("command=whisper&stdout=1") as socket:
        outcome = msgspec.json.decode((await read_channels(socket))[3])
    assert outcome["reason"] == "InternalError"
    assert 'exec: "whisper": executable file not found in $PATH' in outcome["message"]


async def test_a_user_who_hangs_up_ends_the_session(session_client: SessionClient) -> None:
    async with session_client.connect("command=shout&stdin=1&stdout=1") as socket:
        await socket.receive_bytes()
        assert session_client.node.open_sessions == 1
    async with asyncio.timeout(5):
        await session_client.node.emptied.wait()


async def test_a_server_that_stops_says_so(session_client: SessionClient) -> None:
    async with session_client.connect("command=shout&stdin=1&stdout=1") as socket:
        await socket.receive_bytes()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(session_client.stop())
            outcome = msgspec.json.decode((await read_channels(socket))[3])
    assert outcome["message"] == "Internal error occurred: the server is shutting down"
    assert session_client.node.open_sessions == 0


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("stdout=1", 400, "you must specify at least one command"),
        ("command=shout", 400, "at least 1 of stdin, stdout, stderr"),
        ("command=shout&stdout=1&container=x", 400, "container x is not valid for pod a"),
        ("command=shout&stdout=perhaps", 400, "invalid syntax"),
        ("command=shout&stdout=1", 400, "use kubectl 1.31 or later"),
    ],
)
async def test_senseless_sessions_are_refused_before_they_begin(
    session_client: SessionClient, query: str, code: int, words: str
) -> None:
    for method in ("GET", "POST"):
        status = await session_client.request_error(query, method)
        assert status["code"] == code
        assert words in status["message"]


async def test_input_may_arrive_as_text(session_client: SessionClient) -> None:
    async with session_client.connect("command=shout&stdin=true&stdout=true") as socket:
        await socket.send_str("\0grüße\n")
        await socket.send_bytes(b"\xff\x00")
        assert (await read_channels(socket))[1] == "GRüßE\n".encode()


async def test_older_protocols_report_a_failure_as_text_and_success_by_silence(session_client: SessionClient) -> None:
    async with session_client.connect("command=shout&stdout=1", "channel.k8s.io") as socket:
        assert 3 not in await read_channels(socket)
    async with session_client.connect("command=whisper&stdout=1", "base64.channel.k8s.io") as socket:
        messages = [message.data async for message in socket]
    failure = next(base64.b64decode(text[1:]) for text in messages if text[0] == "3")
    assert failure.endswith(b'exec: "whisper": executable file not found in $PATH')


async def test_unknown_channels_are_refused(session_client: SessionClient) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await session_client.connect("command=shout&stdout=1", "v1.nonsense")
    assert refusal.value.status == 400
