"""A minimal client of the gRPC health checking protocol: one call over HTTP/2."""

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
"""An HTTP/2 server does not send larger frames unless the client allows it."""


class GrpcHealthError(Exception):
    """The server did not return its health; the message says what happened."""


async def fetch_serving_status(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str, service: str
) -> str:
    """Return the serving status of a service, or of the server if `service` is empty."""
    writer.write(_CONNECTION_PREFACE + _encode_frame(_SETTINGS_FRAME, 0, 0, b""))
    writer.write(_encode_frame(_HEADERS_FRAME, _END_HEADERS_FLAG, _STREAM_ID, _encode_headers(authority)))
    writer.write(_encode_frame(_DATA_FRAME, _END_STREAM_FLAG, _STREAM_ID, _encode_request(service)))
    response = b""
    async for frame_type, flags, stream_id, content in _read_frames(reader):
        if frame_type in (_SETTINGS_FRAME, _PING_FRAME) and not flags & _ACK_FLAG:
            writer.write(_encode_frame(frame_type, _ACK_FLAG, 0, content if frame_type == _PING_FRAME else b""))
        elif frame_type in (_GOAWAY_FRAME, _RST_STREAM_FRAME):
            raise GrpcHealthError("the server cancelled the call")
        elif frame_type == _DATA_FRAME and stream_id == _STREAM_ID:
            response += content[1 : len(content) - content[0]] if flags & _PADDED_FLAG else content
        if stream_id == _STREAM_ID and flags & _END_STREAM_FLAG and frame_type in (_DATA_FRAME, _HEADERS_FRAME):
            break
    return _decode_serving_status(response)


async def _read_frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, int, int, bytes]]:
    """Yield type, flags, stream id and content of each frame."""
    while True:
        try:
            header = await reader.readexactly(9)
            length = int.from_bytes(header[:3], "big")
            if length > _MAX_FRAME_BYTES:
                raise GrpcHealthError("the server does not speak HTTP/2")
            stream_id = int.from_bytes(header[5:9], "big") & 0x7FFFFFFF
            yield header[3], header[4], stream_id, await reader.readexactly(length)
        except asyncio.IncompleteReadError:
            raise GrpcHealthError("the server closed the connection") from None


def _encode_frame(frame_type: int, flags: int, stream_id: int, content: bytes) -> bytes:
    return struct.pack("!I", len(content))[1:] + bytes((frame_type, flags)) + struct.pack("!I", stream_id) + content


def _encode_headers(authority: str) -> bytes:
    """Encode the request headers, their names by index of the HPACK static table where it has them."""
    method_post, scheme_http = b"\x83", b"\x86"
    path = b"\x04" + _encode_string(_HEALTH_CHECK_METHOD)
    host = b"\x01" + _encode_string(authority.encode())
    content_type = b"\x0f\x10" + _encode_string(b"application/grpc")
    te_trailers = b"\0" + _encode_string(b"te") + _encode_string(b"trailers")
    return method_post + scheme_http + path + host + content_type + te_trailers


def _encode_string(value: bytes) -> bytes:
    # The one-byte length allows up to 126 bytes, which suffices for methods and addresses.
    return bytes((len(value),)) + value


def _encode_request(service: str) -> bytes:
    name = service.encode()
    message = b"\x0a" + _encode_varint(len(name)) + name if name else b""
    return b"\0" + struct.pack("!I", len(message)) + message


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))


def _decode_serving_status(response: bytes) -> str:
    """Return the first field of the response message, which is omitted if it is 0."""
    if len(response) < 5:
        raise GrpcHealthError("the server does not implement grpc.health.v1.Health, or does not know this service")
    message = response[5:]
    return _SERVING_STATUSES.get(message[1] if message[:1] == b"\x08" and len(message) > 1 else 0, "UNKNOWN")
