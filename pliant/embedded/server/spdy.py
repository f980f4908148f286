"""SPDY/3.1 as far as forwarded ports need it: streams that a client opens, data both ways, pings.

Flow control is left to the connection below: neither kubectl's SPDY nor this one counts windows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_WORDS: Final = (
    "options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|"
    "accept-ranges|age|allow|authorization|cache-control|connection|content-base|content-encoding|"
    "content-language|content-length|content-location|content-md5|content-range|content-type|date|etag|"
    "expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|"
    "last-modified|location|max-forwards|pragma|proxy-authenticate|proxy-authorization|range|referer|"
    "retry-after|server|te|trailer|transfer-encoding|upgrade|user-agent|vary|via|warning|"
    "www-authenticate|method|get|status|200 OK|version|HTTP/1.1|url|public|set-cookie|keep-alive|origin"
)
_REST: Final = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 "
    b"Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    b"404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    b"Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    b"chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    b"text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = b"".join(struct.pack(">I", len(word)) + word.encode() for word in _WORDS.split("|")) + _REST
"""What both sides of SPDY/3 know of headers beforehand, as its specification has it."""

LARGEST: Final = 1 << 20
"""Bytes in a frame; whoever sends more is not understood."""
_VERSION, _CONTROL, _FIN = 3, 0x8000, 0x01
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING = 1, 2, 3, 6
_CANCEL = 5
_HEAD = struct.Struct(">HHI")
_NUMBER = struct.Struct(">I")


class NotSpdy(Exception):
    """What came cannot be SPDY/3.1."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The client opened a stream."""

    stream: int
    headers: dict[str, str]
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes on a stream; the last ones close it in this direction."""

    stream: int
    content: bytes
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """The client wants no more of a stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    """The client asks whether anybody is there."""

    number: int


Frame = Opened | Data | Reset | Ping


class Framing:
    """One connection's worth of frames: both ways of compression go on from frame to frame."""

    def __init__(self) -> None:
        self._heard = b""
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def read(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete with these bytes; those that concern nobody here are left out."""
        self._heard += data
        while len(self._heard) >= _HEAD.size:
            first, second, rest = _HEAD.unpack_from(self._heard)
            flags, size = rest >> 24, rest & 0xFFFFFF
            if size > LARGEST:
                raise NotSpdy(f"a frame of {size} bytes")
            if len(self._heard) < _HEAD.size + size:
                return
            body, self._heard = self._heard[_HEAD.size : _HEAD.size + size], self._heard[_HEAD.size + size :]
            if not first & _CONTROL:
                yield Data(first << 16 | second, body, bool(flags & _FIN))
            elif first & ~_CONTROL != _VERSION:
                raise NotSpdy(f"version {first & ~_CONTROL}")
            elif (frame := self._control(second, flags, body)) is not None:
                yield frame

    def accepted(self, stream: int) -> bytes:
        """The frame that says yes to a stream."""
        block = self._deflate.compress(_NUMBER.pack(0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_REPLY, _NUMBER.pack(stream) + block)

    def _control(self, kind: int, flags: int, body: bytes) -> Frame | None:
        try:
            if kind == _SYN_STREAM:
                number = _NUMBER.unpack_from(body)[0] & 0x7FFFFFFF
                return Opened(number, self._headers(body[10:]), bool(flags & _FIN))
            if kind == _RST_STREAM:
                return Reset(_NUMBER.unpack_from(body)[0] & 0x7FFFFFFF)
            if kind == _PING:
                return Ping(_NUMBER.unpack_from(body)[0])
        except (struct.error, zlib.error, UnicodeDecodeError) as problem:
            raise NotSpdy(str(problem)) from problem
        return None

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block, LARGEST)
        (count,) = _NUMBER.unpack_from(plain)
        texts, place = [], _NUMBER.size
        for _ in range(2 * count):
            (size,) = _NUMBER.unpack_from(plain, place)
            texts.append(plain[place + _NUMBER.size : place + _NUMBER.size + size].decode())
            place += _NUMBER.size + size
        return dict(zip(texts[::2], texts[1::2], strict=True))


def data(stream: int, content: bytes, *, is_last: bool = False) -> bytes:
    """A frame of bytes on a stream."""
    return struct.pack(">II", stream, (_FIN if is_last else 0) << 24 | len(content)) + content


def reset(stream: int) -> bytes:
    """The frame that ends a stream at once."""
    return _control(_RST_STREAM, struct.pack(">II", stream, _CANCEL))


def pong(ping: Ping) -> bytes:
    """The answer to a ping."""
    return _control(_PING, _NUMBER.pack(ping.number))


def _control(kind: int, body: bytes) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION, kind, len(body)) + body
