"""Pipes into containers that read what users who attach to them type."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant.embedded.node.descriptors import Descriptor

_PIECE = 2048
"""Bytes of input in one frame, few enough for a pipe to take them at once or not at all."""


class Input:
    """The way into one container."""

    def __init__(self, descriptor: Descriptor, *, has_terminal: bool, is_read: bool, is_for_one: bool) -> None:
        self._descriptor = descriptor
        self._is_read = is_read
        self._has_terminal = has_terminal
        self._is_for_one = is_for_one

    async def write(self, data: bytes) -> None:
        """Give input; a terminal may be there for the output alone."""
        if not self._is_read:
            return
        if not self._has_terminal:
            await self._descriptor.write(data)
            return
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            await self._descriptor.write(struct.pack(">cH", b"i", len(piece)) + piece)

    async def resize(self, columns: int, rows: int) -> None:
        """Tell the terminal how large it is."""
        if self._has_terminal and 0 <= columns < 1 << 16 and 0 <= rows < 1 << 16:
            await self._descriptor.write(struct.pack(">cHHH", b"s", 4, columns, rows))

    def user_left(self) -> None:
        """Close it for good, if it was to serve one user only; the command then sees the end of its input."""
        if self._is_for_one and not self._has_terminal:
            self._descriptor.close()

    def close(self) -> None:
        """The container is over."""
        self._descriptor.close()


class Inputs:
    """The inputs of all containers that run and have one."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Input] = {}

    def begin(self, uid: str, run: str, spec: Mapping[str, Any], path: Path) -> None:
        """Make the pipe at `path` for a container that is about to start."""
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        # For reading, too: so the pipe stays open whoever comes and goes.
        descriptor = Descriptor(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        self._open[uid, run] = Input(
            descriptor,
            has_terminal=bool(spec.get("tty")),
            is_read=bool(spec.get("stdin")),
            is_for_one=bool(spec.get("stdinOnce")),
        )

    def end(self, uid: str, run: str) -> None:
        """The container is over, or was never started."""
        if given := self._open.pop((uid, run), None):
            given.close()

    def of(self, uid: str, run: str) -> Input | None:
        """The way into a container, if there is one."""
        return self._open.get((uid, run))
