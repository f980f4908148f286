"""Watches: everything that happens to the selected objects after a version, once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import msgspec

from pliant.embedded.schema import Problem, Reason
from pliant.embedded.server.answers import CHUNK_BYTES, body_in, status_object
from pliant.embedded.server.calls import Call
from pliant.embedded.server.reads import Selection, as_table
from pliant.embedded.server.refusals import unfit_options
from pliant.embedded.storage.records import Event, Record, encode, record
from pliant.embedded.storage.shelves import Shelves
from pliant.errors import Gone
from pliant.kube.transport import StreamReply
from pliant.runtime.clock import Clock

BOOKMARK_SECONDS = 60.0
LONGEST_SECONDS = 3600.0

_encode = msgspec.json.Encoder().encode
Wire = Callable[[str, Record], bytes]


def open_watch(shelves: Shelves, call: Call, clock: Clock) -> StreamReply:
    """Start a watch; raises `Gone` at once when the version asked for is no longer kept."""
    selection = Selection.of(call)
    asked = call.number("resourceVersion") or 0
    wants_state = _wants_state(call, asked)
    since = shelves.version if wants_state else asked
    if since > shelves.version:
        raise Gone(410, "Expired", f"too new resource version: {since} ({shelves.version})")
    history = shelves.history(call.kind.key)
    history.since(since)
    watch = _Watch(shelves, call, selection, _wire(call, clock))
    initial = shelves.listing(call.kind.key, call.namespace) if wants_state else []
    return StreamReply(status=200, chunks=watch.chunks(since, [r for r in initial if selection.admits(r)]))


def seen_as(selection: Selection, event: Event) -> tuple[str, Record] | None:
    """How a change looks to somebody who sees only selected objects; None when it does not concern them."""
    was_in = event.before is not None and selection.admits(event.before)
    is_in = not event.gone and selection.admits(event.after)
    if is_in:
        return ("MODIFIED" if was_in else "ADDED"), event.after
    if not was_in or event.before is None:
        return None
    if event.gone:
        return "DELETED", event.after
    # It left the selection: told as it was last seen, at the version of its leaving.
    last = event.before.decode()
    last["metadata"]["resourceVersion"] = str(event.version)
    return "DELETED", record(event.after.key.resource, last)


class _Watch:
    """One stream. It pulls from the history, so a client that reads slowly falls out of it and hurts nobody."""

    def __init__(self, shelves: Shelves, call: Call, selection: Selection, wire: Wire) -> None:
        self._shelves = shelves
        self._call = call
        self._selection = selection
        self._wire = wire
        self._history = shelves.history(call.kind.key)
        self._bookmarks = call.flag("allowWatchBookmarks")
        self._seconds = float(call.number("timeoutSeconds") or LONGEST_SECONDS)

    async def chunks(self, since: int, initial: list[Record]) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._seconds
        for piece in _joined(self._wire("ADDED", found) for found in initial):
            yield piece
        if self._call.flag("sendInitialEvents") and self._bookmarks:
            yield self._bookmark(since, {"k8s.io/initial-events-end": "true"})
        due = False
        while True:
            try:
                events = self._history.since(since)
            except Gone as error:
                yield _line("ERROR", _encode(status_object(error)))
                return
            since = self._shelves.version
            for piece in _joined(self._lines(events)):
                yield piece
            over = loop.time() >= ends_at
            if self._bookmarks and (due or over):
                yield self._bookmark(since)
            if over:
                return
            if events or due:  # time passed while those were sent: look again before waiting
                due = False
                continue
            pause = min(ends_at - loop.time(), BOOKMARK_SECONDS if self._bookmarks else LONGEST_SECONDS)
            due = not await self._changed_within(pause)

    async def _changed_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._history.changed()
        except TimeoutError:
            return False
        return True

    def _lines(self, events: Iterable[Event]) -> Iterator[bytes]:
        for event in events:
            seen = seen_as(self._selection, event)
            if seen is not None:
                yield self._wire(*seen)

    def _bookmark(self, version: int, annotations: dict[str, str] | None = None) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        kind = self._call.kind
        about = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if self._call.form == "Table":
            about |= {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [], "rows": []}
        return _line("BOOKMARK", encode(about))


def _wants_state(call: Call, asked: int) -> bool:
    if not call.text("sendInitialEvents"):
        return asked == 0
    if call.text("resourceVersionMatch") != "NotOlderThan":
        why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise unfit_options("GET", Problem("resourceVersionMatch", Reason.FORBIDDEN.cause, why))
    return call.flag("sendInitialEvents")


def _wire(call: Call, clock: Clock) -> Wire:
    if call.form == "Table":
        return lambda word, found: _line(word, _encode(as_table(call, [found], clock.now())))
    return lambda word, found: _line(word, body_in(call.kind, found))


def _line(word: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (word.encode(), body)


def _joined(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines in pieces of a size that suits a socket."""
    piece: list[bytes] = []
    size = 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= CHUNK_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)
