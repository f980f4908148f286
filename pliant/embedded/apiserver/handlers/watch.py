"""The verb watch: streams the changes of the selected objects after a resource version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from pliant.embedded.apiserver.handlers.get_list import ObjectFilter, partial_object_metadata, render_table
from pliant.embedded.apiserver.handlers.list_options import validate_list_options
from pliant.embedded.apiserver.http.negotiation import PARTIAL_METADATA, TABLE
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import encode_served_object, join_into_chunks, status_from_error
from pliant.embedded.apiserver.protobuf.typed_objects import fill_zero_values
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.stored_objects import ObjectChange, StoredObject, encode_object, to_stored_object
from pliant.errors import Gone
from pliant.kube.transport.base import StreamReply
from pliant.runtime.clock import Clock

BOOKMARK_INTERVAL_SECONDS = 60.0
_REPLICATED_KINDS = ("Deployment", "ReplicaSet")
DEFAULT_WATCH_TIMEOUT_SECONDS = 3600.0
_encode = msgspec.json.Encoder().encode


def open_watch(index: ObjectIndex, info: RequestInfo, clock: Clock) -> StreamReply:
    """Start a watch; raise `Gone` when the history no longer contains the requested resource version."""
    selection = ObjectFilter.from_request(info)
    validate_list_options(info)
    info.query_int("timeoutSeconds")  # its error comes first
    requested = info.requested_version or 0
    wants_initial_state = _wants_initial_state(info, requested)
    since = index.version if wants_initial_state else requested
    if since > index.version:
        raise Gone(410, "Expired", f"too new resource version: {since} ({index.version})")
    index.history(info.kind.resource_key).changes_since(since)
    watch = _WatchStream(index, info, selection, clock)
    records = index.list_objects(info.kind.resource_key, info.namespace) if wants_initial_state else []
    # Selected while they are sent: many watches may open at the same time.
    return StreamReply(status=200, chunks=watch.chunks(since, filter(selection.matches, records)))


def to_watch_event(object_filter: ObjectFilter, change: ObjectChange) -> tuple[str, StoredObject] | None:
    """Return the type and the object of the watch event for a change, or None if the filter excludes it."""
    matched_before = change.before is not None and object_filter.matches(change.before)
    if not change.is_deleted and object_filter.matches(change.after):
        return ("MODIFIED" if matched_before else "ADDED"), change.after
    if not matched_before or change.before is None:
        return None
    if change.is_deleted:
        return "DELETED", change.after
    # The object no longer matches: send its last matching state with the resource version of the change.
    last = change.before.decode()
    last["metadata"]["resourceVersion"] = str(change.version)
    return "DELETED", to_stored_object(change.after.key.resource, last)


class _WatchStream:
    """One watch. It reads from the history, so a slow client gets an error instead of a growing buffer."""

    def __init__(self, index: ObjectIndex, info: RequestInfo, object_filter: ObjectFilter, clock: Clock) -> None:
        self._index = index
        self._info = info
        self._object_filter = object_filter
        self._clock = clock
        self._is_table = info.response_kind == TABLE
        self._is_metadata = info.response_kind.startswith(PARTIAL_METADATA)
        self._history = index.history(info.kind.resource_key)
        self._sends_bookmarks = info.query_bool("allowWatchBookmarks")
        self._timeout_seconds = float(info.query_int("timeoutSeconds") or DEFAULT_WATCH_TIMEOUT_SECONDS)

    async def chunks(self, since_version: int, initial: Iterable[StoredObject]) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._timeout_seconds
        for chunk in join_into_chunks(self._encode_event("ADDED", record) for record in initial):
            yield chunk
        if self._info.query_bool("sendInitialEvents") and self._sends_bookmarks:
            yield self._encode_bookmark(since_version, {"k8s.io/initial-events-end": "true"})
        is_bookmark_due = False
        while True:
            try:
                changes = self._history.changes_since(since_version)
            except Gone as error:
                yield _encode_watch_line("ERROR", _encode(status_from_error(error)))
                return
            since_version = self._index.version
            for chunk in join_into_chunks(self._encode_changes(changes)):
                yield chunk
            is_over = loop.time() >= ends_at
            if self._sends_bookmarks and (is_bookmark_due or is_over):
                yield self._encode_bookmark(since_version)
            if is_over:
                return
            if changes or is_bookmark_due:  # more changes may have arrived while these were sent
                is_bookmark_due = False
                continue
            interval = BOOKMARK_INTERVAL_SECONDS if self._sends_bookmarks else DEFAULT_WATCH_TIMEOUT_SECONDS
            is_bookmark_due = not await self._wait_for_change(min(ends_at - loop.time(), interval))

    async def _wait_for_change(self, timeout_seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(timeout_seconds, 0)):
                await self._history.wait_changed()
            return True
        return False

    def _encode_changes(self, changes: Iterable[ObjectChange]) -> Iterator[bytes]:
        for change in changes:
            event = to_watch_event(self._object_filter, change)
            if event is not None:
                yield self._encode_event(*event)

    def _encode_event(self, event_type: str, record: StoredObject) -> bytes:
        if self._is_table:
            body = _encode(render_table(self._info, [record], self._clock.now()))
        elif self._is_metadata:
            body = _encode(partial_object_metadata(record))
        else:
            body = encode_served_object(self._info.kind, record)
        return _encode_watch_line(event_type, body)

    def _encode_bookmark(self, resource_version: int, annotations: dict[str, str] | None = None) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(resource_version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        bookmark = {"kind": self._info.kind.kind, "apiVersion": self._info.kind.api_version, "metadata": metadata}
        if not self._info.kind.is_custom:
            fill_zero_values(self._info.kind.api_version, self._info.kind.kind, bookmark)
            _fill_workload_spec(bookmark)
        if self._is_table:
            table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [], "rows": []}
            bookmark = {**table, "metadata": metadata}
        elif self._is_metadata:
            bookmark = {"kind": PARTIAL_METADATA, "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        return _encode_watch_line("BOOKMARK", encode_object(bookmark))


def _wants_initial_state(info: RequestInfo, requested_version: int) -> bool:
    if not info.query_text("sendInitialEvents"):
        return requested_version == 0
    return info.query_bool("sendInitialEvents")


def _fill_workload_spec(bookmark: dict[str, Any]) -> None:
    """Add the fields of an empty workload that all others have: its template has no metadata, its size is 0."""
    if bookmark["kind"] == "ControllerRevision":
        bookmark["data"] = None
    spec = bookmark.get("spec") or {}
    if "template" not in spec:
        return
    spec["template"]["metadata"] = {}
    if bookmark["kind"] in _REPLICATED_KINDS:
        spec |= {"replicas": 0, "selector": None}


def _encode_watch_line(event_type: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (event_type.encode(), body)
