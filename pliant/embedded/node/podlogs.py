"""What containers wrote: one file for each run, kept until the pod is deleted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from pliant.embedded.node.inotify import FileWatch
from pliant.embedded.server.logs import LogOptions
from pliant.errors import BadRequest

_CHUNK = 1 << 16


class PodLogs:
    """Keeps and reads logs; a reader who follows is woken by writes and by the end, never by a clock."""

    def __init__(self, folder: Path, files: FileWatch) -> None:
        self._folder = folder
        self._files = files
        self._open: dict[Path, list[asyncio.Event]] = {}
        """Logs of containers that run, and those who follow them."""

    def begin(self, uid: str, container: str, run: int) -> Path:
        """The file for a run that is about to start."""
        path = self._folder / uid / "logs" / container / f"{run}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._open[path] = []
        return path

    def end(self, path: Path) -> None:
        """The run is over: whoever follows may stop at the end of the file."""
        for follower in self._open.pop(path, ()):
            follower.set()

    async def read(self, pod: dict[str, Any], container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The output of one container of a pod, in pieces of any size."""
        path = self._latest(pod, container, is_previous=options.previous)
        left = options.limit_bytes
        handle = os.open(path, os.O_RDONLY)
        try:
            os.lseek(handle, _start(handle, options.tail_lines), os.SEEK_SET)
            async for chunk in self._chunks(handle, path, follow=options.follow):
                yield chunk if left is None else chunk[:left]
                if left is not None and (left := left - len(chunk)) <= 0:
                    return
        finally:
            os.close(handle)

    async def _chunks(self, handle: int, path: Path, *, follow: bool) -> AsyncIterator[bytes]:
        if not follow or path not in self._open:
            while chunk := os.read(handle, _CHUNK):
                yield chunk
            return
        woken = asyncio.Event()
        followers = self._open[path]
        followers.append(woken)
        try:
            with self._files.watching(path, woken):
                while True:
                    # Asked before reading: what is written before the end is read before the loop ends.
                    is_over = path not in self._open
                    woken.clear()
                    while chunk := os.read(handle, _CHUNK):
                        yield chunk
                    if is_over:
                        return
                    await woken.wait()
        finally:
            followers.remove(woken)

    def _latest(self, pod: dict[str, Any], container: str, *, is_previous: bool) -> Path:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        runs = sorted((self._folder / uid / "logs" / container).glob("*.log"), key=lambda path: int(path.stem))
        if len(runs) < 1 + is_previous:
            which = "previous terminated container" if is_previous else "container"
            raise BadRequest(400, "BadRequest", f'{which} "{container}" in pod "{name}" not found')
        latest: Path = runs[-2 if is_previous else -1]
        return latest


def _start(handle: int, lines: int | None) -> int:
    """Where the last so many lines begin."""
    if lines is None:
        return 0
    end = position = os.fstat(handle).st_size
    wanted = lines + (end > 0 and os.pread(handle, 1, end - 1) == b"\n")
    while position > 0 and wanted > 0:
        size = min(_CHUNK, position)
        position -= size
        block = os.pread(handle, size, position)
        place = len(block)
        while wanted > 0 and (place := block.rfind(b"\n", 0, place)) >= 0:
            wanted -= 1
            if wanted == 0:
                return position + place + 1
    return end if lines == 0 else 0
