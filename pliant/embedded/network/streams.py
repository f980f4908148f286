"""Connections that are being served, so that all of them can be ended."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from socket import SO_LINGER, SOL_SOCKET, socket
from typing import Any


class ConnectionTasks:
    """Knows the tasks that serve connections."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    @contextmanager
    def track(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        """Count the present task among them for as long as the block runs; then its connection is closed."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)
            writer.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Serve something in a task of its own."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel_all(self) -> None:
        """Break all of them off."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Stream:
    """One connection, to read from and to write to."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def from_socket(cls, sock: socket) -> Stream:
        """A connected socket as a stream."""
        reader, writer = await asyncio.open_connection(sock=sock, limit=_CHUNK_BYTES)
        return cls(reader, writer)

    def abort(self) -> None:
        """Break the connection off, as a program does that has died: the other side is told at once."""
        sock = self.writer.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def splice_streams(one: Stream, other: Stream) -> None:
    """Carry bytes both ways until both sides have said all; what breaks on one side breaks on the other."""
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_copy_bytes(one.reader, other.writer))
            tasks.create_task(_copy_bytes(other.reader, one.writer))
    except* OSError:
        one.abort()
        other.abort()
    finally:
        one.writer.close()
        other.writer.close()


async def _copy_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
