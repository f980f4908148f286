"""The seam between a Kubernetes client and whatever answers it.

`Request` goes in, `Reply` comes out. Over HTTP that is `pliant.kube.transport.http`; in one process it is a direct
call to the embedded server, which makes fault campaigns deterministic.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call to an API server, free of any HTTP library."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    timeout: float | None = 30.0
    """Seconds for the whole exchange; None for streams that stay open."""
    before_send: Callable[[], object] | None = None
    """Asked at the last moment before the request leaves, however long that took to come; raises if it may not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A complete answer."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReply:
    """An answer that arrives in pieces of any size: a watch or a log."""

    status: int
    chunks: AsyncIterator[bytes]
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport(Protocol):
    """Carries requests to an API server and brings back its answers.

    A transport raises `Unreachable` when no answer arrives; any HTTP status is an answer.
    """

    async def send(self, request: Request) -> Reply:
        """Exchange one request for one complete reply."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        """Open a stream; leaving the context ends it."""

    async def aclose(self) -> None:
        """Give back connections; nothing may be sent afterwards."""
