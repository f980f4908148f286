"""Asynchronous pipes and terminals, and the stdin pipes of containers for users who attach to them."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import struct
import termios
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_READ_BYTES = 1 << 15
_MAX_FRAME_INPUT_BYTES = 2048
"""Bytes of input per frame, few enough for an atomic write to a pipe."""


class AsyncFileDescriptor:
    """One end of a pipe, or the outer end of a pseudo-terminal; `close` ends pending reads and writes."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._waiters: set[asyncio.Future[None]] = set()

    async def read(self) -> bytes:
        """Return the next data, or nothing at end-of-file."""
        loop = asyncio.get_running_loop()
        while self._fd >= 0:
            try:
                return os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                ready = loop.create_future()
                loop.add_reader(self._fd, _wake_waiter, ready)
                await self._wait_ready(ready, loop.remove_reader)
            except OSError as error:
                if error.errno == errno.EIO:  # The inner end of the terminal was closed.
                    return b""
                raise
        return b""

    async def write(self, data: bytes) -> None:
        """Write all data; drop it if the reader has closed its end."""
        loop = asyncio.get_running_loop()
        while data and self._fd >= 0:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                ready = loop.create_future()
                loop.add_writer(self._fd, _wake_waiter, ready)
                await self._wait_ready(ready, loop.remove_writer)
            except OSError:
                return

    def resize_terminal(self, columns: int, rows: int) -> None:
        """Set the window size of a terminal; do nothing for a pipe."""
        with suppress(OSError, struct.error):
            fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(fd)
        loop.remove_writer(fd)
        os.close(fd)
        for waiter in self._waiters:
            _wake_waiter(waiter)

    async def _wait_ready(self, ready: asyncio.Future[None], stop_watching: Callable[[int], bool]) -> None:
        self._waiters.add(ready)
        try:
            await ready
        finally:
            self._waiters.discard(ready)
            if self._fd >= 0:
                stop_watching(self._fd)


def _wake_waiter(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


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

    def close_if_stdin_once(self) -> None:
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
