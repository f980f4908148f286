"""Byte streams between two connections, and the tasks that serve connections."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socket import SO_LINGER, SOL_SOCKET, socket
from typing import Any

from pliant.runtime.accept import max_connections

_OPEN_FILES_SHARE = 12
"""A twelfth of the open files: a forwarded connection needs two, and there are three kinds of forwarders."""


class ConnectionTasks:
    """The tasks that serve the connections of one server; connections beyond the limit are aborted."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._max_tasks = max_connections(_OPEN_FILES_SHARE)

    @contextmanager
    def track(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        """Register the current task while the block runs, then close its connection."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= self._max_tasks:
            writer.transport.abort()
            task.cancel()  # at its next wait
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)
            writer.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel_all(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def cancel_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class DuplexStream:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def from_socket(cls, sock: socket) -> DuplexStream:
        reader, writer = await asyncio.open_connection(sock=sock, limit=_CHUNK_BYTES)
        return cls(reader, writer)

    def abort(self) -> None:
        """Reset the connection, so that the peer notices at once."""
        sock = self.writer.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def splice_streams(one: DuplexStream, other: DuplexStream) -> None:
    """Copy bytes in both directions until both sides have sent EOF; an error on one side resets both."""
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
