"""Tells of every call to the API server what was asked, how it was answered and how long that took."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from pliant.errors import Unreachable
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport

NO_RESPONSE_CODE = "none"
OTHER_LABEL = "other"
_VERB_BY_METHOD = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class ApiCall(NamedTuple):
    """What was asked of which resource, and the status of the answer; nothing that a user named."""

    verb: str
    resource: str
    code: str


class MeteredTransport(Transport):
    """Reports each request to `note` when its answer has come; of a stream, when it has begun."""

    def __init__(self, inner: Transport, on_call: Callable[[ApiCall, float], None], clock: Callable[[], float]) -> None:
        self._inner = inner
        self._on_call = on_call
        self._clock = clock

    async def send(self, request: Request) -> Reply:
        """Exchange one request for one complete reply."""
        began = self._clock()
        try:
            reply = await self._inner.send(request)
        except Unreachable:
            self._report_call(request, NO_RESPONSE_CODE, began)
            raise
        self._report_call(request, str(reply.status), began)
        return reply

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        """Open a stream; leaving the context ends it."""
        began = self._clock()
        async with AsyncExitStack() as stack:
            try:
                reply = await stack.enter_async_context(self._inner.stream(request))
            except Unreachable:
                self._report_call(request, NO_RESPONSE_CODE, began)
                raise
            self._report_call(request, str(reply.status), began)
            yield reply

    async def aclose(self) -> None:
        """Give back connections."""
        await self._inner.aclose()

    def _report_call(self, request: Request, code: str, started_at: float) -> None:
        self._on_call(ApiCall(*verb_and_resource(request), code), self._clock() - started_at)


def verb_and_resource(request: Request) -> tuple[str, str]:
    """The verb and the resource of a request, as rights are granted: `patch`, `jobs.batch/status`."""
    _, root, *parts = request.path.split("/")
    group = ""
    if root == "apis" and len(parts) > 2:
        group, parts = f".{parts[0]}", parts[2:]
    elif root == "api" and len(parts) > 1:
        parts = parts[1:]
    else:
        return request.method.lower(), OTHER_LABEL
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    resource = f"{parts[0]}{group}" + (f"/{parts[2]}" if len(parts) > 2 else "")
    if request.method != "GET":
        return _VERB_BY_METHOD.get(request.method, OTHER_LABEL), resource
    if len(parts) > 1:
        return "get", resource
    return "watch" if "watch" in request.query else "list", resource
