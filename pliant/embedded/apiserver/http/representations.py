"""Translates replies in JSON to the other representations that clients accept: YAML and protobuf."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import cast

import msgspec

from pliant.embedded.apiserver.http.errors import not_acceptable
from pliant.embedded.apiserver.http.negotiation import Representation, accepted_format
from pliant.embedded.apiserver.http.request_info import TRUE_QUERY_VALUES
from pliant.embedded.apiserver.http.responses import error_response, status_from_error
from pliant.embedded.apiserver.protobuf.encoder import NotRepresentable, encode_protobuf, encode_watch_event
from pliant.errors import ServerError
from pliant.kube.transport.base import JSON_CONTENT_TYPE, Reply, Request, StreamReply

_LONG_BODY_BYTES = 64 * 1024
_DOCUMENTS_IN_ONE_REPRESENTATION = ("/openapi/",)


async def to_accepted_reply(reply: Reply | StreamReply, request: Request) -> Reply | StreamReply:
    """Translate a reply in JSON to the representation that the client accepts; other replies are returned as they are.

    Errors are JSON if the client accepts no other representation, either.
    """
    accepted = accepted_format(request.accept)
    if accepted is not None and accepted.representation is Representation.JSON:
        return reply
    if reply.content_type != JSON_CONTENT_TYPE or request.path.startswith(_DOCUMENTS_IN_ONE_REPRESENTATION):
        return reply
    if accepted is None:
        return reply if reply.status >= 400 else error_response(not_acceptable(tuple(Representation)))
    if isinstance(reply, StreamReply) and request.query.get("watch", "") in TRUE_QUERY_VALUES:
        return replace(
            reply, chunks=_translate_watch(reply.chunks), content_type=f"{Representation.PROTOBUF};stream=watch"
        )
    return await _translate_reply(reply, accepted.representation)


async def _translate_reply(reply: Reply | StreamReply, representation: Representation) -> Reply:
    body = reply.body if isinstance(reply, Reply) else b"".join([chunk async for chunk in reply.chunks])
    encode = _ENCODERS[representation]
    try:
        # In a thread: a long list takes longer to encode than other requests should wait.
        encoded = await asyncio.to_thread(encode, body) if len(body) > _LONG_BODY_BYTES else encode(body)
    except NotRepresentable:
        return error_response(not_acceptable((Representation.JSON,)))
    return Reply(status=reply.status, body=encoded, content_type=representation, headers=reply.headers)


async def _translate_watch(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the events of a watch, which arrive as complete lines, in protobuf."""
    async with aclosing(cast("AsyncGenerator[bytes]", chunks)) as lines:
        async for chunk in lines:
            frames = []
            for line in chunk.splitlines():
                event = msgspec.json.decode(line, type=_WatchLine)
                try:
                    frames.append(encode_watch_event(event.type, _to_protobuf(bytes(event.object))))
                except NotRepresentable as error:
                    yield b"".join([*frames, _error_event(error)])
                    return
            yield b"".join(frames)


def _error_event(error: NotRepresentable) -> bytes:
    message = f"the object has no protobuf representation: {error}"
    return encode_watch_event("ERROR", encode_protobuf(status_from_error(ServerError(500, "InternalError", message))))


class _WatchLine(msgspec.Struct):
    type: str
    object: msgspec.Raw


def _to_protobuf(body: bytes) -> bytes:
    return encode_protobuf(msgspec.json.decode(body))


def _to_yaml(body: bytes) -> bytes:
    import yaml

    encoded = yaml.dump(msgspec.json.decode(body), Dumper=yaml.CSafeDumper, allow_unicode=True, encoding="utf-8")
    return bytes(encoded)


_ENCODERS: dict[Representation, Callable[[bytes], bytes]] = {
    Representation.PROTOBUF: _to_protobuf,
    Representation.YAML: _to_yaml,
}
