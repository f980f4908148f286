"""The part of SPDY/3.1 that port forwarding needs: streams that the client opens, data, resets and pings.

There is no flow control by windows: like kubectl, the server relies on the TCP connection.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

_DICTIONARY_WORDS: Final = (
    "options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|"
    "accept-ranges|age|allow|authorization|cache-control|connection|content-base|content-encoding|"
    "content-language|content-length|content-location|content-md5|content-range|content-type|date|etag|"
    "expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|"
    "last-modified|location|max-forwards|pragma|proxy-authenticate|proxy-authorization|range|referer|"
    "retry-after|server|te|trailer|transfer-encoding|upgrade|user-agent|vary|via|warning|"
    "www-authenticate|method|get|status|200 OK|version|HTTP/1.1|url|public|set-cookie|keep-alive|origin"
)
_DICTIONARY_TAIL: Final = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 "
    b"Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    b"404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    b"Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    b"chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    b"text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
HEADER_DICTIONARY: Final = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in _DICTIONARY_WORDS.split("|")) + _DICTIONARY_TAIL
)
"""The zlib dictionary for header compression from the specification of SPDY/3."""
MAX_FRAME_BYTES: Final = 1 << 20
_SPDY_VERSION, _CONTROL_BIT, _FLAG_FIN = 3, 0x8000, 0x01
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING = 1, 2, 3, 6
_STATUS_CANCEL = 5
_FRAME_HEADER = struct.Struct(">HHI")
_UINT32 = struct.Struct(">I")


class SpdyProtocolError(Exception):
    """The client sent data that is not SPDY/3.1."""


class SynStreamFrame(NamedTuple):
    stream_id: int
    headers: dict[str, str]
    is_last: bool = False


class DataFrame(NamedTuple):
    stream_id: int
    content: bytes
    is_last: bool = False


class RstStreamFrame(NamedTuple):
    stream_id: int


class PingFrame(NamedTuple):
    ping_id: int


SpdyFrame = SynStreamFrame | DataFrame | RstStreamFrame | PingFrame


class SpdyCodec:
    """Decodes and encodes the frames of one connection, whose header compression has a state."""

    def __init__(self) -> None:
        self._buffer = b""
        self._inflate = zlib.decompressobj(zdict=HEADER_DICTIONARY)
        self._deflate = zlib.compressobj(zdict=HEADER_DICTIONARY)

    def decode_frames(self, data: bytes) -> Iterator[SpdyFrame]:
        """Yield the frames that are complete with this data, except for frames of other types."""
        self._buffer += data
        while len(self._buffer) >= _FRAME_HEADER.size:
            first, second, rest = _FRAME_HEADER.unpack_from(self._buffer)
            flags, size = rest >> 24, rest & 0xFFFFFF
            if size > MAX_FRAME_BYTES:
                raise SpdyProtocolError(f"frame of {size} bytes is too large")
            if len(self._buffer) < _FRAME_HEADER.size + size:
                return
            end = _FRAME_HEADER.size + size
            body, self._buffer = self._buffer[_FRAME_HEADER.size : end], self._buffer[end:]
            if not first & _CONTROL_BIT:
                yield DataFrame(first << 16 | second, body, bool(flags & _FLAG_FIN))
            elif first & ~_CONTROL_BIT != _SPDY_VERSION:
                raise SpdyProtocolError(f"unsupported SPDY version {first & ~_CONTROL_BIT}")
            elif (frame := self._decode_control_frame(second, flags, body)) is not None:
                yield frame

    def encode_syn_reply(self, stream_id: int) -> bytes:
        block = self._deflate.compress(_UINT32.pack(0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _encode_control_frame(_SYN_REPLY, _UINT32.pack(stream_id) + block)

    def _decode_control_frame(self, frame_type: int, flags: int, body: bytes) -> SpdyFrame | None:
        try:
            if frame_type == _SYN_STREAM:
                stream_id = _UINT32.unpack_from(body)[0] & 0x7FFFFFFF
                return SynStreamFrame(stream_id, self._decode_headers(body[10:]), bool(flags & _FLAG_FIN))
            if frame_type == _RST_STREAM:
                return RstStreamFrame(_UINT32.unpack_from(body)[0] & 0x7FFFFFFF)
            if frame_type == _PING:
                return PingFrame(_UINT32.unpack_from(body)[0])
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise SpdyProtocolError(str(error)) from error
        return None

    def _decode_headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block, MAX_FRAME_BYTES)
        (count,) = _UINT32.unpack_from(plain)
        texts, offset = [], _UINT32.size
        for _ in range(2 * count):
            (size,) = _UINT32.unpack_from(plain, offset)
            texts.append(plain[offset + _UINT32.size : offset + _UINT32.size + size].decode())
            offset += _UINT32.size + size
        return dict(zip(texts[::2], texts[1::2], strict=True))


def encode_data(stream_id: int, content: bytes, *, is_last: bool = False) -> bytes:
    return struct.pack(">II", stream_id, (_FLAG_FIN if is_last else 0) << 24 | len(content)) + content


def encode_reset(stream_id: int) -> bytes:
    return _encode_control_frame(_RST_STREAM, struct.pack(">II", stream_id, _STATUS_CANCEL))


def encode_pong(ping: PingFrame) -> bytes:
    return _encode_control_frame(_PING, _UINT32.pack(ping.ping_id))


def _encode_control_frame(frame_type: int, body: bytes) -> bytes:
    return _FRAME_HEADER.pack(_CONTROL_BIT | _SPDY_VERSION, frame_type, len(body)) + body
