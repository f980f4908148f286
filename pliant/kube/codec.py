"""Bytes to objects and back; what nobody reads is never kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from pliant.errors import ApiError, ServerError, Unreachable, make_api_error
from pliant.kube.resources import Resource

T = TypeVar("T")


class WatchEventType(StrEnum):
    """What a watch event tells."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """A change, or (without an object) news that nothing else happened up to a version."""

    type: WatchEventType
    object: T | None
    resource_version: str
    ends_initial_list: bool = False
    """Whether everything that was there when the watch began has been told."""


@dataclass(slots=True)
class ObjectList(Generic[T]):
    """A collection as it stood at one version."""

    items: list[T] = field(default_factory=list)
    resource_version: str = ""


class ListMeta(msgspec.Struct, rename="camel"):
    """At which version a page was read and where the next one starts."""

    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct, Generic[T]):
    """One page of a list."""

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


_encode = msgspec.json.Encoder().encode


def encode(body: Any) -> bytes:
    """An object as JSON."""
    return _encode(body)


def decode(body: bytes | msgspec.Raw, decode_as: type[T]) -> T:
    """An object from JSON, without the record of who manages which field."""
    value = _decode_json(body, decode_as)
    if isinstance(value, dict):
        _drop_managed_fields(value)
    return value


def decode_page(body: bytes, decode_as: type[T], resource: Resource) -> tuple[list[T], ListMeta]:
    """A page of a list; dicts say what they are, for servers leave that out of items."""
    if decode_as is not cast(Any, dict):
        # The type is known only when this runs, which a checker cannot follow.
        page: ListPage[T] = _decode_json(body, ListPage[decode_as])  # type: ignore[valid-type]
        return page.items or [], page.metadata
    pieces: ListPage[msgspec.Raw] = _decode_json(body, ListPage[msgspec.Raw])
    items: list[Any] = []
    # One by one: a whole page of dicts with all that nobody reads keeps the collector busy for twice as long.
    for piece in pieces.items or ():
        item = decode(piece, dict)
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
        items.append(item)
    return items, pieces.metadata


_EVENT_TYPE_BY_PREFIX = {
    b'{"type":"%b"' % kind.encode(): kind for kind in WatchEventType if kind is not WatchEventType.BOOKMARK
}
"""How lines with objects begin; whatever begins otherwise is taken apart with more care."""


def decode_watch_event(line: bytes, decode_as: type[T]) -> WatchEvent[T]:
    """One line of a watch; an ERROR line is raised as the error it reports."""
    kind = _EVENT_TYPE_BY_PREFIX.get(line[: line.find(b'"', 9) + 1])
    if kind is None:
        return _decode_unusual_event(line, decode_as)
    return _build_watch_event(kind, _decode_json(line, _WatchFrame[decode_as]).object)  # type: ignore[valid-type]


def _decode_unusual_event(line: bytes, decode_as: type[T]) -> WatchEvent[T]:
    frame: _WatchFrame[msgspec.Raw] = _decode_json(line, _WatchFrame[msgspec.Raw])
    if frame.type == "ERROR":
        raise error_from_response(_decode_json(frame.object, _StatusResponse).code or 500, {}, bytes(frame.object))
    if frame.type == "BOOKMARK":
        meta = _decode_json(frame.object, _BookmarkObject).metadata
        ends_list = meta.annotations.get("k8s.io/initial-events-end") == "true"
        return WatchEvent(WatchEventType.BOOKMARK, None, meta.resource_version, ends_list)
    try:
        kind = WatchEventType(frame.type)
    except ValueError:
        raise ServerError(500, "BadAnswer", f"the server sent an unknown watch event {frame.type!r}") from None
    return _build_watch_event(kind, _decode_json(frame.object, decode_as))


def _build_watch_event(event_type: WatchEventType, obj: Any) -> WatchEvent[Any]:
    if not isinstance(obj, dict):
        return WatchEvent(event_type, obj, obj.metadata.resource_version)
    _drop_managed_fields(obj)
    try:
        return WatchEvent(event_type, obj, obj["metadata"]["resourceVersion"])
    except (KeyError, TypeError):
        raise ServerError(500, "BadAnswer", "the server sent an object without a version") from None


def error_from_response(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error an unsuccessful answer stands for, with the wait it asks for."""
    try:
        said = _decode_json(body, _StatusResponse)
    except ServerError:
        # Proxies and load balancers answer in plain text.
        said = _StatusResponse(message=body[:500].decode(errors="replace").strip())
    error = make_api_error(status, said.reason, said.message, details=said.details)
    asked = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    if asked.isdecimal():
        error.retry_after = float(asked)
    elif wait := error.details.get("retryAfterSeconds"):
        error.retry_after = float(wait)
    return error


def _drop_managed_fields(obj: dict[str, Any]) -> None:
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)


def _decode_json(body: bytes | msgspec.Raw, decode_as: type[T]) -> T:
    try:
        return cast(T, _decoder_for(cast(Hashable, decode_as)).decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ServerError(500, "BadAnswer", f"the server sent what cannot be read: {problem}") from problem


@cache
def _decoder_for(decode_as: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(decode_as)


class LineBuffer:
    """Keeps the beginning of a line until its end arrives; copies each byte once."""

    def __init__(self) -> None:
        self._partial_line: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that a piece completes, without empty ones."""
        first, *others = chunk.split(b"\n")
        self._partial_line.append(first)
        if not others:
            return []
        lines = [b"".join(self._partial_line), *others[:-1]]
        self._partial_line = [others[-1]]
        return [line for line in lines if line.strip()]


async def read_next_chunk(chunks: AsyncIterator[bytes], idle_timeout: float) -> bytes | None:
    """The next piece, None at the end; `silence` seconds without one mean that nobody is there any more."""
    try:
        async with asyncio.timeout(idle_timeout):
            return await anext(chunks, None)
    except TimeoutError:
        raise Unreachable(f"the stream has been silent for {idle_timeout:.0f} s") from None


def build_merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What to send so that `before` becomes `after`: changed parts, and null for what goes (RFC 7386)."""
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
