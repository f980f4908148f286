"""The interface through which the API server reads container logs from a node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Options of the log subresource; `since_ns` is a Unix time in nanoseconds."""

    follow: bool = False
    tail_lines: int | None = None
    previous: bool = False
    since_ns: int | None = None
    timestamps: bool = False
    limit_bytes: int | None = None


class LogSource(Protocol):
    def read(self, pod: dict[str, Any], container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield chunks of the log; `follow` ends with the container. Raise `BadRequest` if it never started."""
