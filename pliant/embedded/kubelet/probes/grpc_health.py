"""Ask a server for its health by gRPC: one call, in as much of HTTP/2 as that takes."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from typing import Final

_CONNECTION_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA_FRAME, _HEADERS_FRAME, _RST_STREAM_FRAME, _SETTINGS_FRAME, _PING_FRAME, _GOAWAY_FRAME = 0, 1, 3, 4, 6, 7
_END_STREAM_FLAG, _ACK_FLAG, _END_HEADERS_FLAG, _PADDED_FLAG = 0x1, 0x1, 0x4, 0x8
_STREAM_ID: Final = 1
_HEALTH_CHECK_METHOD: Final = b"/grpc.health.v1.Health/Check"
_SERVING_STATUSES: Final = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_MAX_FRAME_BYTES = 1 << 20
"""Bytes of a frame; a sound server sends no larger ones before it is told that it may."""


class GrpcHealthError(Exception):
    """The server does not tell its health; the words say what it does instead."""


async def check_grpc_health(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str, service: str
) -> str:
    """What the server says of a service, or of itself where none is named: SERVING is well."""
    writer.write(_CONNECTION_PREFACE + _encode_frame(_SETTINGS_FRAME, 0, 0, b""))
    writer.write(_encode_frame(_HEADERS_FRAME, _END_HEADERS_FLAG, _STREAM_ID, _encode_headers(authority)))
    writer.write(_encode_frame(_DATA_FRAME, _END_STREAM_FLAG, _STREAM_ID, _encode_request(service)))
    heard = b""
    async for kind, flags, stream, content in _read_frames(reader):
        if kind in (_SETTINGS_FRAME, _PING_FRAME) and not flags & _ACK_FLAG:
            writer.write(_encode_frame(kind, _ACK_FLAG, 0, content if kind == _PING_FRAME else b""))
        elif kind in (_GOAWAY_FRAME, _RST_STREAM_FRAME):
            raise GrpcHealthError("the server broke the call off")
        elif kind == _DATA_FRAME and stream == _STREAM_ID:
            heard += content[1 : len(content) - content[0]] if flags & _PADDED_FLAG else content
        if stream == _STREAM_ID and flags & _END_STREAM_FLAG and kind in (_DATA_FRAME, _HEADERS_FRAME):
            break
    return _decode_serving_status(heard)


async def _read_frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and content of each frame until the server hangs up."""
    while True:
        try:
            head = await reader.readexactly(9)
            length = int.from_bytes(head[:3], "big")
            if length > _MAX_FRAME_BYTES:
                raise GrpcHealthError("the server does not speak HTTP/2")
            yield head[3], head[4], int.from_bytes(head[5:9], "big") & 0x7FFFFFFF, await reader.readexactly(length)
        except asyncio.IncompleteReadError:
            raise GrpcHealthError("the server hung up") from None


def _encode_frame(frame_type: int, flags: int, stream_id: int, content: bytes) -> bytes:
    return struct.pack("!I", len(content))[1:] + bytes((frame_type, flags)) + struct.pack("!I", stream_id) + content


def _encode_headers(authority: str) -> bytes:
    """Names by their numbers in the table that HTTP/2 begins with, values as they are."""
    post, plain = b"\x83", b"\x86"
    path, host, content_type = (
        b"\x04" + _encode_string(_HEALTH_CHECK_METHOD),
        b"\x01" + _encode_string(authority.encode()),
        b"\x0f\x10",
    )
    return (
        post
        + plain
        + path
        + host
        + content_type
        + _encode_string(b"application/grpc")
        + b"\0"
        + _encode_string(b"te")
        + _encode_string(b"trailers")
    )


def _encode_string(value: bytes) -> bytes:
    # Longer than 126 bytes would take another form; neither a method nor an address is.
    return bytes((len(value),)) + value


def _encode_request(service: str) -> bytes:
    name = service.encode()
    message = b"\x0a" + _encode_varint(len(name)) + name if name else b""
    return b"\0" + struct.pack("!I", len(message)) + message


def _encode_varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*parts, value))


def _decode_serving_status(response: bytes) -> str:
    """The state in a message: its first field, which is left out where it is 0."""
    if len(response) < 5:
        raise GrpcHealthError("the server tells no health (grpc.health.v1.Health) of itself, or not of this service")
    message = response[5:]
    return _SERVING_STATUSES.get(message[1] if message[:1] == b"\x08" and len(message) > 1 else 0, "UNKNOWN")
