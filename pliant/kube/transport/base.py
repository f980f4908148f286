"""The transport interface between the Kubernetes client and an API server.

`pliant.kube.transport.http` implements it over HTTP. Tests call the embedded API server directly, which makes fault
injection deterministic.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

JSON_CONTENT_TYPE = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON_CONTENT_TYPE
    accept: str = JSON_CONTENT_TYPE
    timeout: float | None = 30.0  # seconds for request and response; None for streams that stay open
    before_send: Callable[[], object] | None = None
    """Called immediately before the request is sent; may raise to prevent it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    body: bytes
    content_type: str = JSON_CONTENT_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReply:
    """A response that arrives in chunks: a watch or a log."""

    status: int
    chunks: AsyncIterator[bytes]
    content_type: str = JSON_CONTENT_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport(Protocol):
    """Sends requests to an API server.

    Raises `Unreachable` when no response arrives; any HTTP status is a response.
    """

    async def send(self, request: Request) -> Reply:
        """Send a request and read the complete response."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        """Open a stream; leaving the context closes it."""

    async def aclose(self) -> None:
        """Close the connections; no request may follow."""
