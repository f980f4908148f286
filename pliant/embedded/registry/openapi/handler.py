"""Serves OpenAPI documents: /openapi/v3 with one document for each group and version, and /openapi/v2."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.kinds import Kind
from pliant.errors import ApiError
from pliant.kube.transport.base import JSON_CONTENT_TYPE, Reply, Request

SWAGGER_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_MEDIA_TYPES: Final = {
    JSON_CONTENT_TYPE: JSON_CONTENT_TYPE,
    "application/*": JSON_CONTENT_TYPE,
    "*/*": JSON_CONTENT_TYPE,
    "": JSON_CONTENT_TYPE,
    SWAGGER_PROTOBUF: SWAGGER_PROTOBUF,
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": SWAGGER_PROTOBUF,
}
"""The media types and ranges of Accept headers for version 2, and the media type of the reply."""


class OpenApiHandler:
    """Renders documents when they are asked for; replies are cached until the registry changes."""

    def __init__(self, registry: KindRegistry) -> None:
        self._registry = registry
        self._cached_version = registry.version
        self._cached_replies: dict[str, Reply] = {}

    async def handle(self, request: Request, path_parts: list[str]) -> Reply | None:
        """Return the document at a path below /openapi; None if there is none."""
        if self._cached_version != self._registry.version:
            self._cached_replies.clear()
            self._cached_version = self._registry.version
        if path_parts[1:] == ["v2"]:
            return await self._swagger_reply(_negotiate_media_type(request.accept))
        path = "/".join(path_parts)
        if path not in self._cached_replies:
            document = self._render_document(path_parts)
            if document is None:
                return None
            self._cached_replies[path] = reply_with_etag(document, JSON_CONTENT_TYPE)
        return self._cached_replies[path]

    def _render_document(self, path_parts: list[str]) -> bytes | None:
        from pliant.embedded.registry.openapi import documents  # `pliant run` starts without it

        match path_parts[1:]:
            case ["v3"]:
                return msgspec.json.encode(documents.openapi_index(self._registry))
            case ["v3", "api", version]:
                return documents.render_openapi_document(self._registry, "", version)
            case ["v3", "apis", group, version] if group:
                return documents.render_openapi_document(self._registry, group, version)
        return None

    async def _swagger_reply(self, media_type: str) -> Reply:
        cached = self._cached_replies.get(media_type)
        if cached is not None:
            return cached
        version, kinds = self._registry.version, tuple(self._registry.kinds())
        # In a thread: many CRDs take longer to convert than other requests should wait.
        reply = reply_with_etag(await asyncio.to_thread(_render_swagger, kinds, media_type), media_type)
        if version == self._cached_version == self._registry.version:
            self._cached_replies[media_type] = reply
        return reply


def _render_swagger(kinds: Iterable[Kind], media_type: str) -> bytes:
    from pliant.embedded.registry.openapi.gnostic import encode_document  # few clients ask for version 2
    from pliant.embedded.registry.openapi.swagger import swagger_document

    document = swagger_document(kinds)
    return encode_document(document) if media_type == SWAGGER_PROTOBUF else msgspec.json.encode(document)


def _negotiate_media_type(accept: str) -> str:
    """Return the media type of the first clause of an Accept header that is served; raise `ApiError` if none is."""
    for clause in accept.split(","):
        media_type = _MEDIA_TYPES.get(clause.partition(";")[0].strip())
        if media_type is not None:
            return media_type
    served = f"{JSON_CONTENT_TYPE}, {SWAGGER_PROTOBUF}"
    raise ApiError(406, "NotAcceptable", f"only the following media types are accepted: {served}")


def reply_with_etag(body: bytes, media_type: str) -> Reply:
    """Return a reply whose ETag is a hash of its body."""
    etag = hashlib.sha256(body).hexdigest().upper()
    return Reply(status=200, body=body, content_type=media_type, headers={"ETag": f'"{etag}"', "Vary": "Accept"})
