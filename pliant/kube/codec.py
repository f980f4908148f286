"""Encodes and decodes the JSON of the Kubernetes API: objects, list pages, watch events, errors and merge patches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from pliant.errors import ApiError, ServerError, Unreachable, make_api_error
from pliant.kube.resources import Resource

T = TypeVar("T")


class WatchEventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """A change of an object, or a bookmark: no object, and no other change up to the resource version."""

    type: WatchEventType
    object: T | None
    resource_version: str
    ends_initial_list: bool = False  # set on the bookmark at the end of the initial list of a streaming watch


@dataclass(slots=True)
class ObjectList(Generic[T]):
    items: list[T] = field(default_factory=list)
    resource_version: str = ""


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct, Generic[T]):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[T] | None = None


class _WatchFrame(msgspec.Struct, Generic[T], gc=False):
    type: str
    object: T


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _BookmarkObject(msgspec.Struct):
    metadata: _BookmarkMeta


class _StatusResponse(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode


def decode_object(body: bytes | msgspec.Raw, decode_as: type[T]) -> T:
    """Decode an object, without `managedFields`."""
    value = _decode_json(body, decode_as)
    if isinstance(value, dict):
        _drop_managed_fields(value)
    return value


def decode_page(body: bytes, decode_as: type[T], resource: Resource) -> tuple[list[T], ListMeta]:
    """Decode a page of a list; dicts get `apiVersion` and `kind`, which servers omit in items."""
    if decode_as is not cast(Any, dict):
        # mypy cannot follow a type that is only known at run time.
        page: ListPage[T] = _decode_json(body, ListPage[decode_as])  # type: ignore[valid-type]
        return page.items or [], page.metadata
    raw_page: ListPage[msgspec.Raw] = _decode_json(body, ListPage[msgspec.Raw])
    items: list[Any] = []
    # Decoded one by one: a whole page of dicts with their managedFields doubles the work of the garbage collector.
    for raw_item in raw_page.items or ():
        item = decode_object(raw_item, dict)
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
        items.append(item)
    return items, raw_page.metadata


_EVENT_TYPE_BY_PREFIX = {
    b'{"type":"%b"' % type_.encode(): type_ for type_ in WatchEventType if type_ is not WatchEventType.BOOKMARK
}
"""First bytes of lines that can be decoded in one step."""


def decode_watch_event(line: bytes, decode_as: type[T]) -> WatchEvent[T]:
    """Decode one line of a watch; raise the error that an ERROR event reports."""
    event_type = _EVENT_TYPE_BY_PREFIX.get(line[: line.find(b'"', 9) + 1])
    if event_type is None:
        return _decode_other_event(line, decode_as)
    return _build_watch_event(event_type, _decode_json(line, _WatchFrame[decode_as]).object)  # type: ignore[valid-type]


def _decode_other_event(line: bytes, decode_as: type[T]) -> WatchEvent[T]:
    frame: _WatchFrame[msgspec.Raw] = _decode_json(line, _WatchFrame[msgspec.Raw])
    if frame.type == "ERROR":
        raise error_from_response(_decode_json(frame.object, _StatusResponse).code or 500, {}, bytes(frame.object))
    if frame.type == "BOOKMARK":
        meta = _decode_json(frame.object, _BookmarkObject).metadata
        ends_list = meta.annotations.get("k8s.io/initial-events-end") == "true"
        return WatchEvent(WatchEventType.BOOKMARK, None, meta.resource_version, ends_list)
    try:
        event_type = WatchEventType(frame.type)
    except ValueError:
        raise ServerError(500, "InvalidResponse", f"the server sent an unknown watch event {frame.type!r}") from None
    return _build_watch_event(event_type, _decode_json(frame.object, decode_as))


def _build_watch_event(event_type: WatchEventType, obj: Any) -> WatchEvent[Any]:
    if not isinstance(obj, dict):
        return WatchEvent(event_type, obj, obj.metadata.resource_version)
    _drop_managed_fields(obj)
    try:
        return WatchEvent(event_type, obj, obj["metadata"]["resourceVersion"])
    except (KeyError, TypeError):
        raise ServerError(500, "InvalidResponse", "the server sent an object without a resourceVersion") from None


def error_from_response(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Build the error of an unsuccessful response, with its retry delay."""
    try:
        response = _decode_json(body, _StatusResponse)
    except ServerError:
        # Proxies and load balancers respond in plain text, API servers if they do not serve a path.
        text = body[:500].decode(errors="replace").strip()
        is_unserved = status == 404 and text == "404 page not found"
        response = _StatusResponse(message="the server could not find the requested resource" if is_unserved else text)
    error = make_api_error(status, response.reason, response.message, details=response.details)
    retry_after = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    if retry_after.isdecimal():
        error.retry_after = float(retry_after)
    elif seconds := error.details.get("retryAfterSeconds"):
        error.retry_after = float(seconds)
    return error


def _drop_managed_fields(obj: dict[str, Any]) -> None:
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)


def _decode_json(body: bytes | msgspec.Raw, decode_as: type[T]) -> T:
    try:
        return cast(T, _decoder_for(cast(Hashable, decode_as)).decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServerError(500, "InvalidResponse", f"the server sent an invalid response: {error}") from error


@cache
def _decoder_for(decode_as: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(decode_as)


class LineBuffer:
    """Splits a stream of bytes into lines; copies each byte once."""

    def __init__(self) -> None:
        self._partial_line: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines completed by a chunk, without empty ones."""
        first, *others = chunk.split(b"\n")
        self._partial_line.append(first)
        if not others:
            return []
        lines = [b"".join(self._partial_line), *others[:-1]]
        self._partial_line = [others[-1]]
        return [line for line in lines if line.strip()]


async def read_next_chunk(chunks: AsyncIterator[bytes], idle_timeout: float) -> bytes | None:
    """Return the next chunk, None at the end of the stream; raise `Unreachable` after `idle_timeout` seconds."""
    try:
        async with asyncio.timeout(idle_timeout):
            return await anext(chunks, None)
    except TimeoutError:
        raise Unreachable(f"no data on the stream for {idle_timeout:.0f} s") from None


def build_merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Build a JSON merge patch (RFC 7386) that changes `before` to `after`."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        if key not in before:
            patch[key] = value
        elif isinstance(value, Mapping) and isinstance(before[key], Mapping):
            if inner := build_merge_patch(before[key], value):
                patch[key] = inner
        elif value != before[key]:
            patch[key] = value
    return patch
