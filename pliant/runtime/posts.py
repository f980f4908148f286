"""Takes small messages that programs post over HTTP; whoever sends is answered at once and never kept waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from socket import socket

PATIENCE = 5.0
"""Seconds that one visit may take."""
LONGEST_HEAD = 8192
LONGEST_BODY = 4096
MOST_VISITS = 512
"""Visits at a time; more are turned away, for nothing that is posted here is worth waiting for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One message."""

    path: str
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What the sender is told."""

    text: str = ""
    status: HTTPStatus = HTTPStatus.OK


class _Refused(Exception):
    """The message cannot be taken."""

    def __init__(self, text: str, status: HTTPStatus) -> None:
        super().__init__(text)
        self.answer = Answer(text, status)


Taker = Callable[[Post], Answer]


@asynccontextmanager
async def taking(take: Taker, where: socket | tuple[str | None, int]) -> AsyncIterator[None]:
    """Take messages while the block runs, on a socket that listens or at a host and a port."""
    visits: set[asyncio.StreamWriter] = set()

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(visits) >= MOST_VISITS:
            writer.transport.abort()
            return
        visits.add(writer)
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(PATIENCE):
                    writer.write(_reply(await _answered(reader, take)))
                    await writer.drain()
        finally:
            visits.discard(writer)
            writer.close()

    place = {"sock": where} if isinstance(where, socket) else {"host": where[0], "port": where[1]}
    server = await asyncio.start_server(visit, limit=LONGEST_HEAD, **place)
    try:
        yield
    finally:
        server.close()
        for writer in list(visits):
            writer.transport.abort()
        await server.wait_closed()


async def _answered(reader: asyncio.StreamReader, take: Taker) -> Answer:
    try:
        return take(await _message(reader))
    except _Refused as refusal:
        return refusal.answer
    except asyncio.LimitOverrunError:
        return Answer("the headers are too long", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)


async def _message(reader: asyncio.StreamReader) -> Post:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")[:-2]
    method, _, rest = first.partition(" ")
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    if method != "POST":
        raise _Refused("only POST is understood here", HTTPStatus.METHOD_NOT_ALLOWED)
    length = headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        raise _Refused("Content-Length is missing", HTTPStatus.LENGTH_REQUIRED)
    if int(length) > LONGEST_BODY:
        raise _Refused(f"at most {LONGEST_BODY} bytes are taken", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    body = await reader.readexactly(int(length))
    return Post(path=rest.partition(" ")[0].partition("?")[0], headers=headers, body=body)


def _reply(answer: Answer) -> bytes:
    body = f"{answer.text}\n".encode() if answer.text else b""
    lines = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body
