"""A client of the Kubernetes API over any transport."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from pliant.errors import ApiError, Gone
from pliant.kube.codec import (
    LineBuffer,
    ObjectList,
    WatchEvent,
    decode_object,
    decode_page,
    decode_watch_event,
    encode,
    error_from_response,
    read_next_chunk,
)
from pliant.kube.resources import PODS, Resource
from pliant.kube.transport.base import (
    APPLY_PATCH,
    JSON_CONTENT_TYPE,
    MERGE_PATCH,
    Reply,
    Request,
    StreamReply,
    Transport,
)
from pliant.kube.transport.retry import WriteAdmission, send_with_retries
from pliant.kube.transport.write_flows import DEFAULT_FLOW, WriteFlow
from pliant.kube.transport.write_limiter import AdaptiveWriteLimiter

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=dict[str, Any])
else:
    from typing import TypeVar

    T = TypeVar("T")

FIELD_MANAGER = "pliant"
LIST_PAGE_SIZE = 500
WATCH_TIMEOUT_SECONDS = 290
WATCH_IDLE_TIMEOUT_SECONDS = WATCH_TIMEOUT_SECONDS + 30
"""A watch without data for this long is dead: the server should have closed it."""

_DICT_TYPE: Any = dict


class KubeClient:
    """Calls an API server; returns dicts, or structs of the type `decode_as`."""

    def __init__(
        self,
        transport: Transport,
        rng: random.Random | None = None,
        write_limiter: AdaptiveWriteLimiter | None = None,
        *,
        flow: WriteFlow = DEFAULT_FLOW,
        check_current: Callable[[], None] | None = None,
    ) -> None:
        self._transport = transport
        self._rng = rng or random.Random()
        self.write_limiter = write_limiter
        self._admission = WriteAdmission(write_limiter, flow, check_current) if write_limiter is not None else None

    def with_write_limiter(self, write_limiter: AdaptiveWriteLimiter) -> KubeClient:
        """Return a client with the same transport whose writes wait for this limiter."""
        return KubeClient(self._transport, self._rng, write_limiter)

    def for_flow(self, flow: WriteFlow, *, check_current: Callable[[], None] | None = None) -> KubeClient:
        """Return a client whose writes wait in the queue of this flow.

        `check_current` is called when a write may be sent, and raises if the write is no longer wanted.
        """
        return KubeClient(self._transport, self._rng, self.write_limiter, flow=flow, check_current=check_current)

    async def get(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        subresource: str | None = None,
        decode_as: type[T] = _DICT_TYPE,
    ) -> T:
        reply = await self._send(Request(method="GET", path=resource.path(namespace, name, subresource)))
        return decode_object(reply.body, decode_as)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        decode_as: type[T] = _DICT_TYPE,
    ) -> ObjectList[T]:
        """Read a whole collection at one resource version, page by page."""
        path, query = resource.path(namespace), _selector_query(labels, fields)
        try:
            return await self._list_all_pages(resource, path, {**query, "limit": str(LIST_PAGE_SIZE)}, decode_as)
        except Gone:
            # The continue token expired between two pages; a single page cannot expire.
            return await self._list_all_pages(resource, path, query, decode_as)

    async def _list_all_pages(
        self, resource: Resource, path: str, query: dict[str, str], decode_as: type[T]
    ) -> ObjectList[T]:
        listing: ObjectList[T] = ObjectList()
        while True:
            reply = await self._send(Request(method="GET", path=path, query=query))
            items, metadata = decode_page(reply.body, decode_as, resource)
            listing.items.extend(items)
            listing.resource_version = metadata.resource_version
            if not metadata.continue_token:
                return listing
            query = {**query, "continue": metadata.continue_token}

    async def create(  # noqa: PLR0913
        self,
        resource: Resource,
        namespace: str | None,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
        name: str | None = None,
        strict: bool = False,
        decode_as: type[T] = _DICT_TYPE,
    ) -> T:
        """Create an object, or post to a subresource of the named one; `strict` rejects unknown fields."""
        path = resource.path(namespace, name, subresource)
        reply = await self._send(Request(method="POST", path=path, query=_write_query(strict), body=encode(body)))
        return decode_object(reply.body, decode_as)

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
        decode_as: type[T] = _DICT_TYPE,
    ) -> T:
        """Replace an object; raise `Conflict` unless the body has its current resourceVersion."""
        path = resource.path(namespace, name, subresource)
        reply = await self._send(Request(method="PUT", path=path, query=_write_query(), body=encode(body)))
        return decode_object(reply.body, decode_as)

    async def patch(  # noqa: PLR0913
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        content_type: str = MERGE_PATCH,
        subresource: str | None = None,
        strict: bool = False,
        decode_as: type[T] = _DICT_TYPE,
    ) -> T:
        path = resource.path(namespace, name, subresource)
        request = Request(
            method="PATCH", path=path, query=_write_query(strict), body=encode(patch), content_type=content_type
        )
        return decode_object((await self._send(request)).body, decode_as)

    async def apply(  # noqa: PLR0913
        self,
        resource: Resource,
        namespace: str | None,
        body: Mapping[str, Any],
        *,
        field_manager: str = FIELD_MANAGER,
        force: bool = False,
        subresource: str | None = None,
        decode_as: type[T] = _DICT_TYPE,
    ) -> T:
        """Apply the fields of the body (server-side apply); create the object if it does not exist.

        Fields that an earlier apply of this manager set and this one omits are removed. A field that another manager
        owns raises `Conflict`, unless `force` is set.
        """
        path = resource.path(namespace, body["metadata"]["name"], subresource)
        query = {"fieldManager": field_manager, "force": "true" if force else "false"}
        full_body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        request = Request(method="PATCH", path=path, query=query, body=encode(full_body), content_type=APPLY_PATCH)
        return decode_object((await self._send(request)).body, decode_as)

    async def delete(  # noqa: PLR0913
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        propagation: str | None = None,
    ) -> dict[str, Any]:
        """Delete an object if it still has this uid and version; return the object or a Status."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if any(preconditions.values()):
            options["preconditions"] = {field: value for field, value in preconditions.items() if value}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        request = Request(method="DELETE", path=resource.path(namespace, name), body=encode(options))
        return decode_object((await self._send(request)).body, dict)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str | None,
        labels: str = "",
        fields: str = "",
        decode_as: type[T] = _DICT_TYPE,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Watch changes after `resource_version` until the server closes the stream.

        Without a version, the stream begins with all objects as ADDED events and a bookmark with `ends_initial_list`.
        A server that does not support this responds `Invalid` or `BadRequest`. Bookmarks are events without an object.
        Raises `Gone` when the server no longer has this version, and `Unreachable` when the stream breaks or is idle
        for too long.
        """
        query = {
            **_selector_query(labels, fields),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_TIMEOUT_SECONDS),
        }
        if resource_version is None:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            query["resourceVersion"] = resource_version
        request = Request(method="GET", path=resource.path(namespace), query=query, timeout=None)
        async with self._transport.stream(request) as reply:
            if reply.status != 200:
                raise await _stream_error(reply)
            buffer = LineBuffer()
            while (chunk := await read_next_chunk(reply.chunks, WATCH_IDLE_TIMEOUT_SECONDS)) is not None:
                for line in buffer.feed(chunk):
                    yield decode_watch_event(line, decode_as)

    async def stream_logs(  # noqa: PLR0913
        self,
        namespace: str,
        name: str,
        *,
        container: str | None = None,
        follow: bool = False,
        tail_lines: int | None = None,
        since_seconds: int | None = None,
        previous: bool = False,
        timestamps: bool = False,
    ) -> AsyncGenerator[bytes, None]:
        """Read the log of a container; with `follow`, until the container ends."""
        options = {
            "container": container,
            "follow": "true" if follow else None,
            "tailLines": None if tail_lines is None else str(tail_lines),
            "sinceSeconds": None if since_seconds is None else str(since_seconds),
            "previous": "true" if previous else None,
            "timestamps": "true" if timestamps else None,
        }
        query = {option: value for option, value in options.items() if value is not None}
        async with aclosing(self.stream_raw(PODS.path(namespace, name, "log"), query)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def stream_raw(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Read the response to a GET request as it arrives."""
        request = Request(method="GET", path=path, query=query, accept="*/*", timeout=None)
        async with self._transport.stream(request) as reply:
            if reply.status != 200:
                raise await _stream_error(reply)
            async for chunk in reply.chunks:
                yield chunk

    async def get_raw(self, path: str, *, accept: str = JSON_CONTENT_TYPE) -> bytes:
        path, _, query_string = path.partition("?")
        query = dict(parse_qsl(query_string, keep_blank_values=True))
        return (await self._send(Request(method="GET", path=path, query=query, accept=accept))).body

    async def _send(self, request: Request) -> Reply:
        return await send_with_retries(self._transport, request, self._rng, self._admission)


async def _stream_error(reply: StreamReply) -> ApiError:
    return error_from_response(reply.status, reply.headers, b"".join([chunk async for chunk in reply.chunks]))


def _selector_query(labels: str, fields: str) -> dict[str, str]:
    selectors = {"labelSelector": labels, "fieldSelector": fields}
    return {option: value for option, value in selectors.items() if value}


def _write_query(strict: bool = False) -> dict[str, str]:
    return {"fieldManager": FIELD_MANAGER, **({"fieldValidation": "Strict"} if strict else {})}
