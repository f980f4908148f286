"""Ask a server for its health by gRPC: one call, in as much of HTTP/2 as that takes."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from typing import Final

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GO_AWAY = 0, 1, 3, 4, 6, 7
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 0x1, 0x1, 0x4, 0x8
_STREAM: Final = 1
_METHOD: Final = b"/grpc.health.v1.Health/Check"
_STATES: Final = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_MOST = 1 << 20
"""Bytes of a frame; a sound server sends no larger ones before it is told that it may."""


class NoHealth(Exception):
    """The server does not tell its health; the words say what it does instead."""


async def health(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str, service: str) -> str:
    """What the server says of a service, or of itself where none is named: SERVING is well."""
    writer.write(_PREFACE + _frame(_SETTINGS, 0, 0, b""))
    writer.write(_frame(_HEADERS, _END_HEADERS, _STREAM, _headers(authority)))
    writer.write(_frame(_DATA, _END_STREAM, _STREAM, _question(service)))
    heard = b""
    async for kind, flags, stream, content in _frames(reader):
        if kind in (_SETTINGS, _PING) and not flags & _ACK:
            writer.write(_frame(kind, _ACK, 0, content if kind == _PING else b""))
        elif kind in (_GO_AWAY, _RESET):
            raise NoHealth("the server broke the call off")
        elif kind == _DATA and stream == _STREAM:
            heard += content[1 : len(content) - content[0]] if flags & _PADDED else content
        if stream == _STREAM and flags & _END_STREAM and kind in (_DATA, _HEADERS):
            break
    return _state(heard)


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and content of each frame until the server hangs up."""
    while True:
        try:
            head = await reader.readexactly(9)
            length = int.from_bytes(head[:3], "big")
            if length > _MOST:
                raise NoHealth("the server does not speak HTTP/2")
            yield head[3], head[4], int.from_bytes(head[5:9], "big") & 0x7FFFFFFF, await reader.readexactly(length)
        except asyncio.IncompleteReadError:
            raise NoHealth("the server hung up") from None


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return struct.pack("!I", len(content))[1:] + bytes((kind, flags)) + struct.pack("!I", stream) + content


def _headers(authority: str) -> bytes:
    """Names by their numbers in the table that HTTP/2 begins with, values as they are."""
    post, plain = b"\x83", b"\x86"
    path, host, content_type = b"\x04" + _text(_METHOD), b"\x01" + _text(authority.encode()), b"\x0f\x10"
    return (
        post
        + plain
        + path
        + host
        + content_type
        + _text(b"application/grpc")
        + b"\0"
        + _text(b"te")
        + _text(b"trailers")
    )


def _text(value: bytes) -> bytes:
    # Longer than 126 bytes would take another form; neither a method nor an address is.
    return bytes((len(value),)) + value


def _question(service: str) -> bytes:
    name = service.encode()
    message = b"\x0a" + _varint(len(name)) + name if name else b""
    return b"\0" + struct.pack("!I", len(message)) + message


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*parts, value))


def _state(heard: bytes) -> str:
    """The state in a message: its first field, which is left out where it is 0."""
    if len(heard) < 5:
        raise NoHealth("the server tells no health (grpc.health.v1.Health) of itself, or not of this service")
    message = heard[5:]
    return _STATES.get(message[1] if message[:1] == b"\x08" and len(message) > 1 else 0, "UNKNOWN")
