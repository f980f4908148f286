"""Tells of every call to the API server what was asked, how it was answered and how long that took."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from pliant.errors import Unreachable
from pliant.kube.transport import Reply, Request, StreamReply, Transport

NO_ANSWER = "none"
OTHER = "other"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Call(NamedTuple):
    """What was asked of which resource, and the status of the answer; nothing that a user named."""

    verb: str
    resource: str
    code: str


class MeteredTransport(Transport):
    """Reports each request to `note` when its answer has come; of a stream, when it has begun."""

    def __init__(self, inner: Transport, note: Callable[[Call, float], None], clock: Callable[[], float]) -> None:
        self._inner = inner
        self._note = note
        self._clock = clock

    async def send(self, request: Request) -> Reply:
        """Exchange one request for one complete reply."""
        began = self._clock()
        try:
            reply = await self._inner.send(request)
        except Unreachable:
            self._tell(request, NO_ANSWER, began)
            raise
        self._tell(request, str(reply.status), began)
        return reply

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        """Open a stream; leaving the context ends it."""
        began = self._clock()
        async with AsyncExitStack() as stack:
            try:
                reply = await stack.enter_async_context(self._inner.stream(request))
            except Unreachable:
                self._tell(request, NO_ANSWER, began)
                raise
            self._tell(request, str(reply.status), began)
            yield reply

    async def aclose(self) -> None:
        """Give back connections."""
        await self._inner.aclose()

    def _tell(self, request: Request, code: str, began: float) -> None:
        self._note(Call(*asked(request), code), self._clock() - began)


def asked(request: Request) -> tuple[str, str]:
    """The verb and the resource of a request, as rights are granted: `patch`, `jobs.batch/status`."""
    _, root, *parts = request.path.split("/")
    group = ""
    if root == "apis" and len(parts) > 2:
        group, parts = f".{parts[0]}", parts[2:]
    elif root == "api" and len(parts) > 1:
        parts = parts[1:]
    else:
        return request.method.lower(), OTHER
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    resource = f"{parts[0]}{group}" + (f"/{parts[2]}" if len(parts) > 2 else "")
    if request.method != "GET":
        return _VERBS.get(request.method, OTHER), resource
    if len(parts) > 1:
        return "get", resource
    return "watch" if "watch" in request.query else "list", resource
