"""Pipes and terminals from an event loop: reads and writes that wait without a thread."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import struct
import termios
from collections.abc import Callable
from contextlib import suppress

_MOST = 1 << 15


class Descriptor:
    """One end of a pipe, or the outer end of a terminal; closing it ends every wait."""

    def __init__(self, number: int) -> None:
        os.set_blocking(number, False)
        self._number = number
        self._waiting: set[asyncio.Future[None]] = set()

    async def read(self) -> bytes:
        """What has come, as soon as something has; nothing at the end."""
        loop = asyncio.get_running_loop()
        while self._number >= 0:
            try:
                return os.read(self._number, _MOST)
            except BlockingIOError:
                ready = loop.create_future()
                loop.add_reader(self._number, _wake, ready)
                await self._wait(ready, loop.remove_reader)
            except OSError as problem:
                if problem.errno == errno.EIO:  # nobody holds the inner end of the terminal any longer
                    return b""
                raise
        return b""

    async def write(self, data: bytes) -> None:
        """Pass everything on; what nobody will read is dropped."""
        loop = asyncio.get_running_loop()
        while data and self._number >= 0:
            try:
                data = data[os.write(self._number, data) :]
            except BlockingIOError:
                ready = loop.create_future()
                loop.add_writer(self._number, _wake, ready)
                await self._wait(ready, loop.remove_writer)
            except OSError:  # the reader is gone
                return

    def resize(self, columns: int, rows: int) -> None:
        """Tell a terminal how large it is; anything else has no size."""
        with suppress(OSError, struct.error):
            fcntl.ioctl(self._number, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        """Let go; closing twice does no harm."""
        number, self._number = self._number, -1
        if number < 0:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(number)
        loop.remove_writer(number)
        os.close(number)
        for waiting in self._waiting:
            _wake(waiting)

    async def _wait(self, ready: asyncio.Future[None], stop: Callable[[int], bool]) -> None:
        self._waiting.add(ready)
        try:
            await ready
        finally:
            self._waiting.discard(ready)
            if self._number >= 0:
                stop(self._number)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
