"""Pipes into containers that read what users who attach to them type."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant.embedded.kubelet.runtime.file_descriptors import AsyncFileDescriptor

_MAX_FRAME_INPUT_BYTES = 2048
"""Bytes of input in one frame, few enough for a pipe to take them at once or not at all."""


class ContainerStdin:
    """The way into one container."""

    def __init__(self, descriptor: AsyncFileDescriptor, *, has_terminal: bool, is_enabled: bool, is_once: bool) -> None:
        self._descriptor = descriptor
        self._is_enabled = is_enabled
        self._has_terminal = has_terminal
        self._is_once = is_once

    async def write(self, data: bytes) -> None:
        """Give input; a terminal may be there for the output alone."""
        if not self._is_enabled:
            return
        if not self._has_terminal:
            await self._descriptor.write(data)
            return
        for start in range(0, len(data), _MAX_FRAME_INPUT_BYTES):
            piece = data[start : start + _MAX_FRAME_INPUT_BYTES]
            await self._descriptor.write(struct.pack(">cH", b"i", len(piece)) + piece)

    async def resize_terminal(self, columns: int, rows: int) -> None:
        """Tell the terminal how large it is."""
        if self._has_terminal and 0 <= columns < 1 << 16 and 0 <= rows < 1 << 16:
            await self._descriptor.write(struct.pack(">cHHH", b"s", 4, columns, rows))

    def detach_user(self) -> None:
        """Close it for good, if it was to serve one user only; the command then sees the end of its input."""
        if self._is_once and not self._has_terminal:
            self._descriptor.close()

    def close(self) -> None:
        """The container is over."""
        self._descriptor.close()


class StdinRegistry:
    """The inputs of all containers that run and have one."""

    def __init__(self) -> None:
        self._by_run: dict[tuple[str, str], ContainerStdin] = {}

    def create_pipe(self, pod_uid: str, run_name: str, container_spec: Mapping[str, Any], path: Path) -> None:
        """Make the pipe at `path` for a container that is about to start."""
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        # For reading, too: so the pipe stays open whoever comes and goes.
        descriptor = AsyncFileDescriptor(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        self._by_run[pod_uid, run_name] = ContainerStdin(
            descriptor,
            has_terminal=bool(container_spec.get("tty")),
            is_enabled=bool(container_spec.get("stdin")),
            is_once=bool(container_spec.get("stdinOnce")),
        )

    def close_pipe(self, pod_uid: str, run_name: str) -> None:
        """The container is over, or was never started."""
        if given := self._by_run.pop((pod_uid, run_name), None):
            given.close()

    def get(self, pod_uid: str, run_name: str) -> ContainerStdin | None:
        """The way into a container, if there is one."""
        return self._by_run.get((pod_uid, run_name))
