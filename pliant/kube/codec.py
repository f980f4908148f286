"""Bytes to objects and back; what nobody reads is never kept."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from pliant.errors import ApiError, ServerError, api_error
from pliant.kube.resources import Resource

T = TypeVar("T")


class EventType(StrEnum):
    """What a watch event tells."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """A change, or (without an object) news that nothing else happened up to a version."""

    type: EventType
    object: T | None
    resource_version: str
    ends_list: bool = False
    """Whether everything that was there when the watch began has been told."""


@dataclass(slots=True)
class Listing(Generic[T]):
    """A collection as it stood at one version."""

    items: list[T] = field(default_factory=list)
    resource_version: str = ""


class PageMeta(msgspec.Struct, rename="camel"):
    """At which version a page was read and where the next one starts."""

    resource_version: str = ""
    more: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T]):
    """One page of a list."""

    metadata: PageMeta = msgspec.field(default_factory=PageMeta)
    items: list[T] | None = None


class _Line(msgspec.Struct, Generic[T], gc=False):
    type: str
    object: T


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


_encode = msgspec.json.Encoder().encode


def encode(body: Any) -> bytes:
    """An object as JSON."""
    return _encode(body)


def decode(body: bytes | msgspec.Raw, into: type[T]) -> T:
    """An object from JSON, without the record of who manages which field."""
    value = _read(body, into)
    if isinstance(value, dict):
        _trim(value)
    return value


def decode_page(body: bytes, into: type[T], resource: Resource) -> tuple[list[T], PageMeta]:
    """A page of a list; dicts say what they are, for servers leave that out of items."""
    if into is not cast(Any, dict):
        # The type is known only when this runs, which a checker cannot follow.
        page: Page[T] = _read(body, Page[into])  # type: ignore[valid-type]
        return page.items or [], page.metadata
    pieces: Page[msgspec.Raw] = _read(body, Page[msgspec.Raw])
    items: list[Any] = []
    # One by one: a whole page of dicts with all that nobody reads keeps the collector busy for twice as long.
    for piece in pieces.items or ():
        item = decode(piece, dict)
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
        items.append(item)
    return items, pieces.metadata


_SHAPED = {b'{"type":"%b"' % kind.encode(): kind for kind in EventType if kind is not EventType.BOOKMARK}
"""How lines with objects begin; whatever begins otherwise is taken apart with more care."""


def decode_event(line: bytes, into: type[T]) -> WatchEvent[T]:
    """One line of a watch; an ERROR line is raised as the error it reports."""
    kind = _SHAPED.get(line[: line.find(b'"', 9) + 1])
    if kind is None:
        return _decode_carefully(line, into)
    return _told(kind, _read(line, _Line[into]).object)  # type: ignore[valid-type]


def _decode_carefully(line: bytes, into: type[T]) -> WatchEvent[T]:
    frame: _Line[msgspec.Raw] = _read(line, _Line[msgspec.Raw])
    if frame.type == "ERROR":
        raise failure(_read(frame.object, _Status).code or 500, {}, bytes(frame.object))
    if frame.type == "BOOKMARK":
        meta = _read(frame.object, _Bookmark).metadata
        ends_list = meta.annotations.get("k8s.io/initial-events-end") == "true"
        return WatchEvent(EventType.BOOKMARK, None, meta.resource_version, ends_list)
    try:
        kind = EventType(frame.type)
    except ValueError:
        raise ServerError(500, "BadAnswer", f"the server sent an unknown watch event {frame.type!r}") from None
    return _told(kind, _read(frame.object, into))


def _told(kind: EventType, found: Any) -> WatchEvent[Any]:
    if not isinstance(found, dict):
        return WatchEvent(kind, found, found.metadata.resource_version)
    _trim(found)
    try:
        return WatchEvent(kind, found, found["metadata"]["resourceVersion"])
    except (KeyError, TypeError):
        raise ServerError(500, "BadAnswer", "the server sent an object without a version") from None


def failure(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error an unsuccessful answer stands for, with the wait it asks for."""
    try:
        said = _read(body, _Status)
    except ServerError:
        # Proxies and load balancers answer in plain text.
        said = _Status(message=body[:500].decode(errors="replace").strip())
    error = api_error(status, said.reason, said.message, details=said.details)
    asked = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    if asked.isdecimal():
        error.retry_after = float(asked)
    elif wait := error.details.get("retryAfterSeconds"):
        error.retry_after = float(wait)
    return error


def _trim(value: dict[str, Any]) -> None:
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)


def _read(body: bytes | msgspec.Raw, into: type[T]) -> T:
    try:
        return cast(T, _decoder(cast(Hashable, into)).decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ServerError(500, "BadAnswer", f"the server sent what cannot be read: {problem}") from problem


@cache
def _decoder(into: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(into)
