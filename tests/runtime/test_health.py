from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from http import HTTPStatus

import pytest

from pliant.runtime import http_server
from pliant.runtime.http_server import HttpResponse, serve_pages
from tests.crowd import crowd, few_open_files

PAGES = {
    "/healthz": lambda: HttpResponse("ok\n"),
    "/readyz": lambda: HttpResponse("no\n", HTTPStatus.SERVICE_UNAVAILABLE),
}


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with serve_pages(PAGES, "127.0.0.1", 0) as port:
        yield port


async def said(port: int, *pieces: bytes) -> str:
    """Everything the server answers until it hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return (await reader.read()).decode()
    except ConnectionResetError:
        return ""
    finally:
        writer.close()


async def test_pages_are_answered_with_their_status(port: int) -> None:
    assert await said(port, b"GET /healthz?verbose HTTP/1.1\r\nHost: x\r\n\r\n") == (
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n"
        "Connection: close\r\n\r\nok\n"
    )
    assert (await said(port, b"GET /readyz HTTP/1.0\r\n\r\n")).startswith("HTTP/1.1 503 Service Unavailable\r\n")
    assert (await said(port, b"HEAD /healthz HTTP/1.1\r\n\r\n")).endswith("\r\n\r\n")


async def test_a_request_may_come_in_pieces(port: int) -> None:
    assert (await said(port, b"GET /hea", b"lthz HTTP/1.1\r\n", b"\r\n")).endswith("ok\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /secrets HTTP/1.1\r\n\r\n", "404"),
        (b"POST /healthz HTTP/1.1\r\n\r\n", "405"),
        (b"\x16\x03\x01\r\n\r\n", "405"),
        (b"GET\r\n\r\n", "404"),
        (b"x" * 20_000, ""),
    ],
)
async def test_whatever_comes_is_answered_or_dropped(port: int, request_: bytes, status: str) -> None:
    assert (await said(port, request_))[9:12] == status
    assert (await said(port, b"GET /healthz HTTP/1.1\r\n\r\n")).endswith("ok\n")


async def test_a_visitor_who_says_nothing_is_shown_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_SECONDS", 0.01)
    assert await said(port) == ""


async def test_the_end_of_serving_waits_for_nobody() -> None:
    async with serve_pages(PAGES, "127.0.0.1", 0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /hea")
        await writer.drain()
    async with asyncio.timeout(1):
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.close()


async def test_a_crowd_of_idle_connections_does_not_keep_a_probe_from_its_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with few_open_files(200):
        async with serve_pages(PAGES, "127.0.0.1", 0) as port, crowd(port, 600, "silent"):
            for _ in range(3):
                async with asyncio.timeout(20):
                    assert (await said(port, b"GET /healthz HTTP/1.1\r\n\r\n")).endswith("ok\n")
    assert [record.getMessage() for record in caplog.records] == []
