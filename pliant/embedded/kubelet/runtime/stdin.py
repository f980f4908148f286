"""The stdin pipes of containers, for users who attach to them."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant.embedded.kubelet.runtime.file_descriptors import AsyncFileDescriptor

_MAX_FRAME_INPUT_BYTES = 2048
"""Bytes of input per frame, few enough for an atomic write to a pipe."""


class ContainerStdin:
    """The stdin of one container; input for a terminal is sent as frames, which the container shim explains."""

    def __init__(self, descriptor: AsyncFileDescriptor, *, has_terminal: bool, is_enabled: bool, is_once: bool) -> None:
        self._descriptor = descriptor
        self._is_enabled = is_enabled
        self._has_terminal = has_terminal
        self._is_once = is_once

    async def write(self, data: bytes) -> None:
        """Write input; drop it if the container has a terminal but no stdin."""
        if not self._is_enabled:
            return
        if not self._has_terminal:
            await self._descriptor.write(data)
            return
        for start in range(0, len(data), _MAX_FRAME_INPUT_BYTES):
            chunk = data[start : start + _MAX_FRAME_INPUT_BYTES]
            await self._descriptor.write(struct.pack(">cH", b"i", len(chunk)) + chunk)

    async def resize_terminal(self, columns: int, rows: int) -> None:
        if self._has_terminal and 0 <= columns < 1 << 16 and 0 <= rows < 1 << 16:
            await self._descriptor.write(struct.pack(">cHHH", b"s", 4, columns, rows))

    def detach_user(self) -> None:
        """Close the pipe if the container has `stdinOnce`, so that its command sees end-of-file."""
        if self._is_once and not self._has_terminal:
            self._descriptor.close()

    def close(self) -> None:
        self._descriptor.close()


class StdinRegistry:
    """The stdin pipes of all running containers, by pod uid and run name."""

    def __init__(self) -> None:
        self._by_run: dict[tuple[str, str], ContainerStdin] = {}

    def create_pipe(self, pod_uid: str, run_name: str, container_spec: Mapping[str, Any], path: Path) -> None:
        """Create the pipe of a container that is about to start."""
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        # Opened for reading too: the pipe stays open when its readers and writers come and go.
        descriptor = AsyncFileDescriptor(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        self._by_run[pod_uid, run_name] = ContainerStdin(
            descriptor,
            has_terminal=bool(container_spec.get("tty")),
            is_enabled=bool(container_spec.get("stdin")),
            is_once=bool(container_spec.get("stdinOnce")),
        )

    def close_pipe(self, pod_uid: str, run_name: str) -> None:
        if stdin := self._by_run.pop((pod_uid, run_name), None):
            stdin.close()

    def get(self, pod_uid: str, run_name: str) -> ContainerStdin | None:
        return self._by_run.get((pod_uid, run_name))
