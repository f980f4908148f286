"""SPDY is read and written as its specification says, and carries connections to pods."""

from __future__ import annotations

import struct
import zlib

import pytest

from pliant.embedded.apiserver.streaming import spdy


def syn_stream(stream: int, headers: dict[str, str], deflate: zlib._Compress) -> bytes:
    pairs = [part for pair in headers.items() for part in pair]
    plain = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(p)) + p.encode() for p in pairs)
    body = struct.pack(">IIH", stream, 0, 0) + deflate.compress(plain) + deflate.flush(zlib.Z_SYNC_FLUSH)
    return struct.pack(">HHI", 0x8003, 1, len(body)) + body


def test_the_dictionary_is_the_one_of_the_specification() -> None:
    assert (len(spdy.HEADER_DICTIONARY), zlib.adler32(spdy.HEADER_DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_frames_are_read_however_they_are_cut() -> None:
    deflate = zlib.compressobj(zdict=spdy.HEADER_DICTIONARY)
    sent = (
        syn_stream(1, {"streamtype": "error", "port": "80"}, deflate)
        + syn_stream(3, {"streamtype": "data", "port": "80"}, deflate)
        + spdy.encode_data(3, b"hello")
        + struct.pack(">HHIII", 0x8003, 9, 8, 3, 100)  # a window update
        + struct.pack(">HHII", 0x8003, 6, 4, 7)
        + spdy.encode_data(3, b"", is_last=True)
        + spdy.encode_reset(1)
    )
    expected = [
        spdy.SynStreamFrame(1, {"streamtype": "error", "port": "80"}),
        spdy.SynStreamFrame(3, {"streamtype": "data", "port": "80"}),
        spdy.DataFrame(3, b"hello"),
        spdy.PingFrame(7),
        spdy.DataFrame(3, b"", is_last=True),
        spdy.RstStreamFrame(1),
    ]
    for size in (1, 7, len(sent)):
        framing = spdy.SpdyCodec()
        pieces = [sent[start : start + size] for start in range(0, len(sent), size)]
        assert [frame for piece in pieces for frame in framing.decode_frames(piece)] == expected


def test_a_stream_is_accepted_without_headers() -> None:
    framing, inflate = spdy.SpdyCodec(), zlib.decompressobj(zdict=spdy.HEADER_DICTIONARY)
    for stream in (1, 3):
        frame = framing.encode_syn_reply(stream)
        assert struct.unpack_from(">HH", frame) == (0x8003, 2)
        assert struct.unpack_from(">I", frame, 8) == (stream,)
        assert inflate.decompress(frame[12:]) == b"\0\0\0\0"


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.1\r\n\r\n" * 100,
        struct.pack(">HHI", 0x8002, 1, 0),
        struct.pack(">HHI", 0x8003, 1, 12) + b"\0" * 12,
        struct.pack(">HHI", 0x8003, 6, 0),
    ],
)
def test_what_is_no_spdy_is_refused(nonsense: bytes) -> None:
    with pytest.raises(spdy.SpdyProtocolError):
        list(spdy.SpdyCodec().decode_frames(nonsense))
