"""Translates replies in JSON to protobuf.

Objects are stored as JSON, so JSON costs the server nothing: it is sent to every client that accepts it, also if the
client prefers protobuf. Clients that accept only protobuf are rare.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec

from pliant.embedded.apiserver.http.responses import error_response
from pliant.embedded.apiserver.protobuf.encoder import NotRepresentable, encode_protobuf, encode_watch_event
from pliant.embedded.apiserver.protobuf.media_types import PROTOBUF_MEDIA_TYPE
from pliant.errors import ApiError
from pliant.kube.transport.base import JSON_CONTENT_TYPE, Reply, StreamReply


async def to_protobuf_reply(reply: Reply | StreamReply, *, is_watch: bool) -> Reply | StreamReply:
    """Translate a reply in JSON; other replies, such as logs, are returned as they are."""
    if reply.content_type != JSON_CONTENT_TYPE:
        return reply
    if isinstance(reply, StreamReply) and is_watch:
        content_type = f"{PROTOBUF_MEDIA_TYPE};stream=watch"
        return replace(reply, chunks=_translate_watch(reply.chunks), content_type=content_type)
    body = reply.body if isinstance(reply, Reply) else b"".join([chunk async for chunk in reply.chunks])
    try:
        # In a thread: a long list takes longer to encode than other requests should wait.
        encoded = await asyncio.to_thread(_translate, body) if isinstance(reply, StreamReply) else _translate(body)
    except NotRepresentable:
        return error_response(_not_acceptable())
    return Reply(status=reply.status, body=encoded, content_type=PROTOBUF_MEDIA_TYPE, headers=reply.headers)


async def _translate_watch(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the events of a watch, which arrive as complete lines."""
    async for chunk in chunks:
        events = [msgspec.json.decode(line, type=_WatchLine) for line in chunk.splitlines()]
        yield b"".join(encode_watch_event(event.type, _translate(bytes(event.object))) for event in events)


class _WatchLine(msgspec.Struct):
    type: str
    object: msgspec.Raw


def _translate(body: bytes) -> bytes:
    return encode_protobuf(msgspec.json.decode(body))


def _not_acceptable() -> ApiError:
    message = f"only the following media types are accepted: {JSON_CONTENT_TYPE}"
    return ApiError(406, "NotAcceptable", message)
