"""What the server needs from a node to answer `kubectl logs`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Which part of a container's output is wanted."""

    follow: bool = False
    tail_lines: int | None = None
    previous: bool = False
    since_ns: int | None = None
    """Only what was written from then on, in nanoseconds since 1970."""
    timestamps: bool = False
    limit_bytes: int | None = None


class LogSource(Protocol):
    """Reads what containers wrote.

    Following ends when the container has ended; a container that never started raises `BadRequest`.
    """

    def read(self, pod: dict[str, Any], container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The output of one container of a pod, in pieces of any size."""
