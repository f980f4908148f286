"""A tiny API server for one resource whose every misfortune a test can bring about."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pliant.errors import ApiError, Unreachable
from pliant.kube.transport.base import Reply, Request, StreamReply

Event = tuple[int, str, dict[str, Any]]
ENDS = {"k8s.io/initial-events-end": "true"}


def status(code: int, reason: str = "", message: str = "told to") -> dict[str, Any]:
    """A Status as servers answer it."""
    return {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}


def line(kind: str, obj: dict[str, Any]) -> bytes:
    """A watch event on the wire."""
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


class ToyServer:
    """Keeps pods by name with their history; tests break its watches, forget its history and delay its lists."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.oldest = 100
        self.history: list[Event] = []
        self.ended: set[str] = set()
        """The uids of objects that are no more."""
        self.requests: list[Request] = []
        self.refusals: list[ApiError | Reply] = []
        """Answers for the next requests, before any is served."""
        self.list_delay = 0.0
        self.streams_lists = True
        self._streams: list[asyncio.Queue[bytes | ApiError | None]] = []
        self._made = 0

    def put(self, name: str, **labels: str) -> dict[str, Any]:
        """Create or change an object; what a writer would get as reply."""
        self.version += 1
        known = self.objects.get(name)
        if known is None:
            self._made += 1
        uid = known["metadata"]["uid"] if known else f"uid-{self._made}"
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": uid,
            "resourceVersion": str(self.version),
            "labels": labels,
            "managedFields": [{"manager": "somebody"}],
        }
        obj = self.objects[name] = {"metadata": metadata, "status": {"phase": "Running"}}
        self._tell("MODIFIED" if known else "ADDED", obj)
        return obj

    def delete(self, name: str) -> dict[str, Any]:
        """Remove an object; the object as it was."""
        self.version += 1
        known = self.objects.pop(name)
        self.ended.add(known["metadata"]["uid"])
        gone = {**known, "metadata": {**known["metadata"], "resourceVersion": str(self.version)}}
        self._tell("DELETED", gone)
        return known

    def bookmark(self) -> None:
        """Tell watchers how far they have come."""
        self._send(line("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}}))

    def pass_unseen(self, versions: int) -> None:
        """Let other resources use up versions."""
        self.version += versions

    def forget_history(self) -> None:
        """Keep nothing older than now."""
        self.oldest = self.version
        self.history.clear()

    def start_over(self) -> None:
        """Become a new, empty cluster."""
        self.__init__()  # type: ignore[misc]

    def end_watches(self, because: ApiError | None = None, *, half_a_line: bool = False) -> None:
        """Close every watch, in order or broken, perhaps in the middle of a line."""
        if half_a_line:
            self._send(b'{"type":"ADDED","object":{"metadata":{"na')
        for stream in self._streams:
            stream.put_nowait(because)
        self._streams.clear()

    def say_again(self, many: int) -> None:
        """Tell watchers the last changes once more, as an impatient proxy might."""
        for _, kind, obj in self.history[-many:]:
            self._send(line(kind, obj))

    def say_in_stream(self, text: bytes) -> None:
        """Write anything into every watch."""
        self._send(text)

    @property
    def open_watches(self) -> int:
        """How many watches are open."""
        return len(self._streams)

    def asked(self, *, watches: bool) -> list[Request]:
        """The watch requests, or the others."""
        return [request for request in self.requests if ("watch" in request.query) == watches]

    async def send(self, request: Request) -> Reply:
        """Answer a list."""
        self.requests.append(request)
        if self.refusals:
            return self._refuse()
        items = list(self.objects.values())
        body = {"metadata": {"resourceVersion": str(self.version)}, "items": items}
        reply = Reply(status=200, body=json.dumps(body).encode())
        if self.list_delay:
            await asyncio.sleep(self.list_delay)
        return reply

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        """Answer a watch."""
        self.requests.append(request)
        if self.refusals:
            refusal = self._refuse()
            yield StreamReply(status=refusal.status, chunks=_once(refusal.body), headers=refusal.headers)
            return
        stream: asyncio.Queue[bytes | ApiError | None] = asyncio.Queue()
        since = int(request.query.get("resourceVersion", self.version))
        if "sendInitialEvents" in request.query:
            if not self.streams_lists:
                yield StreamReply(status=422, chunks=_once(json.dumps(status(422, "Invalid")).encode()))
                return
            for obj in self.objects.values():
                stream.put_nowait(line("ADDED", obj))
            stream.put_nowait(line("BOOKMARK", {"metadata": {"resourceVersion": str(since), "annotations": ENDS}}))
        if since < self.oldest:
            yield StreamReply(status=410, chunks=_once(json.dumps(status(410, "Expired")).encode()))
            return
        for version, kind, obj in self.history:
            if version > since:
                stream.put_nowait(line(kind, obj))
        self._streams.append(stream)
        try:
            yield StreamReply(status=200, chunks=_chunks(stream))
        finally:
            if stream in self._streams:
                self._streams.remove(stream)

    async def aclose(self) -> None:
        """Nothing to give back."""

    def _refuse(self) -> Reply:
        refusal = self.refusals.pop(0)
        if isinstance(refusal, ApiError):
            raise refusal
        return refusal

    def _tell(self, kind: str, obj: dict[str, Any]) -> None:
        self.history.append((self.version, kind, obj))
        self._send(line(kind, obj))

    def _send(self, chunk: bytes) -> None:
        for stream in self._streams:
            stream.put_nowait(chunk)


LOST = Unreachable("the connection broke")


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _chunks(stream: asyncio.Queue[bytes | ApiError | None]) -> AsyncIterator[bytes]:
    while (chunk := await stream.get()) is not None:
        if isinstance(chunk, ApiError):
            raise chunk
        yield chunk
