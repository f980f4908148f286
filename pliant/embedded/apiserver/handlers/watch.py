"""Watches: everything that happens to the selected objects after a version, once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import msgspec

from pliant.embedded.apiserver.handlers.get_list import ObjectFilter, render_table
from pliant.embedded.apiserver.http.errors import invalid_options
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import RESPONSE_CHUNK_BYTES, encode_in_version, status_from_error
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.stored_objects import ObjectChange, StoredObject, encode_object, to_stored_object
from pliant.errors import Gone
from pliant.kube.transport.base import StreamReply
from pliant.runtime.clock import Clock

BOOKMARK_INTERVAL_SECONDS = 60.0
MAX_WATCH_SECONDS = 3600.0

_encode = msgspec.json.Encoder().encode
EventEncoder = Callable[[str, StoredObject], bytes]


def open_watch(index: ObjectIndex, info: RequestInfo, clock: Clock) -> StreamReply:
    """Start a watch; raises `Gone` at once when the version asked for is no longer kept."""
    selection = ObjectFilter.from_request(info)
    asked = info.query_int("resourceVersion") or 0
    wants_state = _wants_initial_state(info, asked)
    since = index.version if wants_state else asked
    if since > index.version:
        raise Gone(410, "Expired", f"too new resource version: {since} ({index.version})")
    history = index.history(info.kind.resource_key)
    history.changes_since(since)
    watch = _WatchStream(index, info, selection, _create_event_encoder(info, clock))
    initial = index.list_objects(info.kind.resource_key, info.namespace) if wants_state else []
    return StreamReply(status=200, chunks=watch.chunks(since, [r for r in initial if selection.matches(r)]))


def to_watch_event(object_filter: ObjectFilter, event: ObjectChange) -> tuple[str, StoredObject] | None:
    """How a change looks to somebody who sees only selected objects; None when it does not concern them."""
    was_in = event.before is not None and object_filter.matches(event.before)
    is_in = not event.is_deleted and object_filter.matches(event.after)
    if is_in:
        return ("MODIFIED" if was_in else "ADDED"), event.after
    if not was_in or event.before is None:
        return None
    if event.is_deleted:
        return "DELETED", event.after
    # It left the selection: told as it was last seen, at the version of its leaving.
    last = event.before.decode()
    last["metadata"]["resourceVersion"] = str(event.version)
    return "DELETED", to_stored_object(event.after.key.resource, last)


class _WatchStream:
    """One stream. It pulls from the history, so a client that reads slowly falls out of it and hurts nobody."""

    def __init__(
        self, index: ObjectIndex, info: RequestInfo, object_filter: ObjectFilter, event_encoder: EventEncoder
    ) -> None:
        self._index = index
        self._info = info
        self._object_filter = object_filter
        self._encode_event = event_encoder
        self._history = index.history(info.kind.resource_key)
        self._sends_bookmarks = info.query_bool("allowWatchBookmarks")
        self._timeout_seconds = float(info.query_int("timeoutSeconds") or MAX_WATCH_SECONDS)

    async def chunks(self, since_version: int, initial: list[StoredObject]) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._timeout_seconds
        for piece in _join_into_chunks(self._encode_event("ADDED", found) for found in initial):
            yield piece
        if self._info.query_bool("sendInitialEvents") and self._sends_bookmarks:
            yield self._encode_bookmark(since_version, {"k8s.io/initial-events-end": "true"})
        due = False
        while True:
            try:
                events = self._history.changes_since(since_version)
            except Gone as error:
                yield _encode_watch_line("ERROR", _encode(status_from_error(error)))
                return
            since_version = self._index.version
            for piece in _join_into_chunks(self._encode_events(events)):
                yield piece
            over = loop.time() >= ends_at
            if self._sends_bookmarks and (due or over):
                yield self._encode_bookmark(since_version)
            if over:
                return
            if events or due:  # time passed while those were sent: look again before waiting
                due = False
                continue
            pause = min(
                ends_at - loop.time(), BOOKMARK_INTERVAL_SECONDS if self._sends_bookmarks else MAX_WATCH_SECONDS
            )
            due = not await self._wait_for_change(pause)

    async def _wait_for_change(self, timeout_seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(timeout_seconds, 0)):
                await self._history.wait_changed()
        except TimeoutError:
            return False
        return True

    def _encode_events(self, events: Iterable[ObjectChange]) -> Iterator[bytes]:
        for event in events:
            seen = to_watch_event(self._object_filter, event)
            if seen is not None:
                yield self._encode_event(*seen)

    def _encode_bookmark(self, resource_version: int, annotations: dict[str, str] | None = None) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(resource_version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        kind = self._info.kind
        about = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if self._info.response_format == "Table":
            about |= {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [], "rows": []}
        return _encode_watch_line("BOOKMARK", encode_object(about))


def _wants_initial_state(info: RequestInfo, requested_version: int) -> bool:
    if not info.query_text("sendInitialEvents"):
        return requested_version == 0
    if info.query_text("resourceVersionMatch") != "NotOlderThan":
        why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid_options("GET", FieldError("resourceVersionMatch", FieldErrorType.FORBIDDEN.cause, why))
    return info.query_bool("sendInitialEvents")


def _create_event_encoder(info: RequestInfo, clock: Clock) -> EventEncoder:
    if info.response_format == "Table":
        return lambda word, found: _encode_watch_line(word, _encode(render_table(info, [found], clock.now())))
    return lambda word, found: _encode_watch_line(word, encode_in_version(info.kind, found))


def _encode_watch_line(event_type: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (event_type.encode(), body)


def _join_into_chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines in pieces of a size that suits a socket."""
    piece: list[bytes] = []
    size = 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= RESPONSE_CHUNK_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)
