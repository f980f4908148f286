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

_IN_MODIFY = 0x2
_INOTIFY_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class FileWatcher:
    """One inotify instance for all files; each watcher of a file has an event that is set when it was written."""

    def __init__(self) -> None:
        self._inotify_fd: int | None = None
        self._watchers: dict[int, list[asyncio.Event]] = defaultdict(list)

    def close(self) -> None:
        """Watch nothing any more."""
        if self._inotify_fd is not None:
            asyncio.get_running_loop().remove_reader(self._inotify_fd)
            os.close(self._inotify_fd)
            self._inotify_fd = None

    @contextmanager
    def watch(self, path: Path, write_event: asyncio.Event) -> Iterator[None]:
        """Have `written` set whenever the file is written to, as long as the context lasts."""
        handle = self._open_inotify()
        number = _libc.inotify_add_watch(handle, os.fsencode(path), _IN_MODIFY)
        if number < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
        watchers = self._watchers[number]
        watchers.append(write_event)
        try:
            yield
        finally:
            watchers.remove(write_event)
            if not watchers and self._inotify_fd is not None:
                del self._watchers[number]
                _libc.inotify_rm_watch(handle, number)

    def _open_inotify(self) -> int:
        if self._inotify_fd is None:
            self._inotify_fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if self._inotify_fd < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "inotify")
            asyncio.get_running_loop().add_reader(self._inotify_fd, self._dispatch_events)
        return self._inotify_fd

    def _dispatch_events(self) -> None:
        assert self._inotify_fd is not None
        told = os.read(self._inotify_fd, 1 << 16)
        position = 0
        while position < len(told):
            number, _, _, length = _INOTIFY_EVENT.unpack_from(told, position)
            position += _INOTIFY_EVENT.size + length
            for written in self._watchers.get(number, ()):
                written.set()
