"""Watch files for writes with inotify."""

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
    """Sets an event whenever a watched file is written; one inotify instance serves all files."""

    def __init__(self) -> None:
        self._inotify_fd: int | None = None
        self._watchers: dict[int, list[asyncio.Event]] = defaultdict(list)

    def close(self) -> None:
        if self._inotify_fd is not None:
            asyncio.get_running_loop().remove_reader(self._inotify_fd)
            os.close(self._inotify_fd)
            self._inotify_fd = None

    @contextmanager
    def watch(self, path: Path, write_event: asyncio.Event) -> Iterator[None]:
        """Set `write_event` on each write to a file until the context exits."""
        inotify_fd = self._open_inotify()
        watch_id = _libc.inotify_add_watch(inotify_fd, os.fsencode(path), _IN_MODIFY)
        if watch_id < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
        watchers = self._watchers[watch_id]
        watchers.append(write_event)
        try:
            yield
        finally:
            watchers.remove(write_event)
            if not watchers and self._inotify_fd is not None:
                del self._watchers[watch_id]
                _libc.inotify_rm_watch(inotify_fd, watch_id)

    def _open_inotify(self) -> int:
        if self._inotify_fd is None:
            self._inotify_fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if self._inotify_fd < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "inotify")
            asyncio.get_running_loop().add_reader(self._inotify_fd, self._dispatch_events)
        return self._inotify_fd

    def _dispatch_events(self) -> None:
        assert self._inotify_fd is not None
        data = os.read(self._inotify_fd, 1 << 16)
        position = 0
        while position < len(data):
            watch_id, _, _, length = _INOTIFY_EVENT.unpack_from(data, position)
            position += _INOTIFY_EVENT.size + length
            for write_event in self._watchers.get(watch_id, ()):
                write_event.set()
