"""Carry bytes between two connections."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from socket import SO_LINGER, SOL_SOCKET, socket

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Stream:
    """One connection, to read from and to write to."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def over(cls, sock: socket) -> Stream:
        """A connected socket as a stream."""
        reader, writer = await asyncio.open_connection(sock=sock, limit=_CHUNK)
        return cls(reader, writer)

    def abort(self) -> None:
        """Break the connection off, as a program does that has died: the other side is told at once."""
        sock = self.writer.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def joined(one: Stream, other: Stream) -> None:
    """Carry bytes both ways until both sides have said all; what breaks on one side breaks on the other."""
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_carry(one.reader, other.writer))
            tasks.create_task(_carry(other.reader, one.writer))
    except* OSError:
        one.abort()
        other.abort()
    finally:
        one.writer.close()
        other.writer.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
