"""Reads the body of a request over HTTP, within limits of size and time, and decompresses it."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress

from aiohttp import web

from pliant.embedded.apiserver.http.errors import bad_request
from pliant.embedded.apiserver.http.request_body import MAX_BODY_BYTES
from pliant.errors import ApiError

BODY_TIMEOUT_SECONDS = 30.0
DISCARD_TIMEOUT_SECONDS = 2.0
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


async def read_body(incoming: web.Request) -> bytes:
    """Return the decompressed body of a request; raise ApiError if it is malformed, too large or too slow."""
    encoding = incoming.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", *_WINDOW_BITS):
        message = f"Content-Encoding: {encoding!r} is not supported; use gzip, deflate or identity"
        raise ApiError(415, "UnsupportedMediaType", message)
    chunks, size = [], 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            async for chunk in incoming.content.iter_any():
                size += len(chunk)
                if size > MAX_BODY_BYTES:
                    raise _too_large()
                chunks.append(chunk)
    except TimeoutError:
        message = f"the body of the request did not arrive within {BODY_TIMEOUT_SECONDS:g} s"
        raise ApiError(408, "Timeout", message) from None
    except web.RequestPayloadError as error:
        raise bad_request(f"the body of the request cannot be read: {error}") from None
    body = b"".join(chunks)
    return _decompress(body, encoding) if encoding in _WINDOW_BITS else body


async def send_error(incoming: web.Request, response: web.Response) -> web.Response:
    """Send an error; if the body was not read to its end, discard it for a while, then close the connection.

    A connection that is closed with unread bytes is reset, and the client might not see the response.
    """
    if incoming.content.is_eof():
        return response
    response.force_close()
    await response.prepare(incoming)
    await response.write_eof()
    with suppress(TimeoutError, web.RequestPayloadError):
        async with asyncio.timeout(DISCARD_TIMEOUT_SECONDS):
            async for _ in incoming.content.iter_any():
                pass
    incoming.protocol.force_close()
    return response


def _decompress(body: bytes, encoding: str) -> bytes:
    decompressor = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        content = decompressor.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise bad_request(f"the body of the request is not {encoding}: {error}") from None
    if len(content) > MAX_BODY_BYTES:
        raise _too_large()
    if not decompressor.eof or decompressor.unused_data:
        raise bad_request(f"the body of the request is not {encoding}: it is truncated, or more follows its end")
    return content


def _too_large() -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}")
