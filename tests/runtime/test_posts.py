"""Messages posted over HTTP, good ones and others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest

from pliant.runtime import http_server
from pliant.runtime.http_server import EventualResponse, HttpRequest, HttpResponse, serve_requests


def take(post: HttpRequest) -> EventualResponse:
    return HttpResponse(f"{post.path} {post.headers.get('x')} {post.body.decode()}", HTTPStatus.ACCEPTED)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    async with serve_requests(take, listener):
        yield listener.getsockname()[1]


async def said(port: int, *pieces: bytes) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return (await reader.read()).decode()
    except ConnectionResetError:
        return ""
    finally:
        writer.close()


async def test_a_message_may_come_in_pieces(port: int) -> None:
    told = await said(port, b"POST /a?b HTTP/1.1\r\nX: 1\r\nContent-Len", b"gth: 4\r\n\r\nbo", b"dy")
    assert told.startswith("HTTP/1.1 202 Accepted\r\n")
    assert told.endswith("\r\n\r\n/a 1 body\n")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"PUT / HTTP/1.1\r\n\r\n", 405),
        (b"POST / HTTP/1.1\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: -4\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: 5000\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
    ],
)
async def test_what_cannot_be_taken_is_told_so(port: int, sent: bytes, code: int) -> None:
    told = await said(port, sent)
    assert not told or told.startswith(f"HTTP/1.1 {code} ")


async def test_a_length_of_thousands_of_digits_is_refused(port: int) -> None:
    told = await said(port, b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n")
    assert told.startswith("HTTP/1.1 413 ")


async def test_a_visitor_who_falls_silent_is_sent_away(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_SECONDS", 0.05)
    assert await said(port, b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n") == ""
