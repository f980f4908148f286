"""Reports verb, resource, status and duration of every call to the API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from pliant.errors import Unreachable
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport

NO_RESPONSE_CODE = "none"
UNKNOWN_REQUEST_LABEL = "other"
_VERB_BY_METHOD = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class ApiCallLabels(NamedTuple):
    """The labels of a call; none of them contains a name given by a user."""

    verb: str
    resource: str
    code: str


class MeteredTransport(Transport):
    """Calls `on_call` after each response; for a stream, when it begins."""

    def __init__(
        self, inner: Transport, on_call: Callable[[ApiCallLabels, float], None], clock: Callable[[], float]
    ) -> None:
        self._inner = inner
        self._on_call = on_call
        self._clock = clock

    async def send(self, request: Request) -> Reply:
        started_at = self._clock()
        try:
            reply = await self._inner.send(request)
        except Unreachable:
            self._report_call(request, NO_RESPONSE_CODE, started_at)
            raise
        self._report_call(request, str(reply.status), started_at)
        return reply

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        started_at = self._clock()
        async with AsyncExitStack() as stack:
            try:
                reply = await stack.enter_async_context(self._inner.stream(request))
            except Unreachable:
                self._report_call(request, NO_RESPONSE_CODE, started_at)
                raise
            self._report_call(request, str(reply.status), started_at)
            yield reply

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _report_call(self, request: Request, code: str, started_at: float) -> None:
        self._on_call(ApiCallLabels(*rbac_verb_and_resource(request), code), self._clock() - started_at)


def rbac_verb_and_resource(request: Request) -> tuple[str, str]:
    """Return the verb and the resource of a request as in RBAC rules: `patch`, `jobs.batch/status`."""
    _, root, *parts = request.path.split("/")
    group = ""
    if root == "apis" and len(parts) > 2:
        group, parts = f".{parts[0]}", parts[2:]
    elif root == "api" and len(parts) > 1:
        parts = parts[1:]
    else:
        return request.method.lower(), UNKNOWN_REQUEST_LABEL
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    resource = f"{parts[0]}{group}" + (f"/{parts[2]}" if len(parts) > 2 else "")
    if request.method != "GET":
        return _VERB_BY_METHOD.get(request.method, UNKNOWN_REQUEST_LABEL), resource
    if len(parts) > 1:
        return "get", resource
    return "watch" if "watch" in request.query else "list", resource
