"""Be told when files grow, without looking at them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MODIFIED = 0x2
_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class FileWatch:
    """One inotify instance for all files; each watcher of a file has an event that is set when it was written."""

    def __init__(self) -> None:
        self._handle: int | None = None
        self._watchers: dict[int, list[asyncio.Event]] = defaultdict(list)

    def close(self) -> None:
        """Watch nothing any more."""
        if self._handle is not None:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._handle = None

    @contextmanager
    def watching(self, path: Path, written: asyncio.Event) -> Iterator[None]:
        """Have `written` set whenever the file is written to, as long as the context lasts."""
        handle = self._opened()
        number = _libc.inotify_add_watch(handle, os.fsencode(path), _MODIFIED)
        if number < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
        watchers = self._watchers[number]
        watchers.append(written)
        try:
            yield
        finally:
            watchers.remove(written)
            if not watchers and self._handle is not None:
                del self._watchers[number]
                _libc.inotify_rm_watch(handle, number)

    def _opened(self) -> int:
        if self._handle is None:
            self._handle = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if self._handle < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "inotify")
            asyncio.get_running_loop().add_reader(self._handle, self._read)
        return self._handle

    def _read(self) -> None:
        assert self._handle is not None
        told = os.read(self._handle, 1 << 16)
        position = 0
        while position < len(told):
            number, _, _, length = _EVENT.unpack_from(told, position)
            position += _EVENT.size + length
            for written in self._watchers.get(number, ()):
                written.set()
