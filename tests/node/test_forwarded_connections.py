"""The proxies of pods have limited connections, so that the cluster itself keeps descriptors for its work."""

from __future__ import annotations

import asyncio

import pytest

from pliant.embedded.network import streams
from pliant.embedded.network.streams import ConnectionTasks


async def test_connections_beyond_the_limit_are_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "max_connections", lambda share: 2)
    connections, serving = ConnectionTasks(), asyncio.Queue[None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with connections.track(writer):
            serving.put_nowait(None)
            await reader.read()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    opened = []
    for _ in range(3):
        opened.append(await asyncio.open_connection("127.0.0.1", port))
        await asyncio.wait_for(serving.get(), 5)
    assert await asyncio.wait_for(opened[2][0].read(), 5) == b""
    assert not any(reader.at_eof() for reader, _ in opened[:2])
    for _, writer in opened:
        writer.close()
    server.close()
    await connections.cancel_all()
