"""Read and write pipes and terminals from an event loop without a thread."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import struct
import termios
from collections.abc import Callable
from contextlib import suppress

_READ_BYTES = 1 << 15


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
