"""What containers wrote: the files of each run, the last of which are kept until the pod is deleted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from pliant.embedded.node.inotify import FileWatch
from pliant.embedded.node.logfiles import Place, RunLog, Stamping
from pliant.embedded.server.logs import LogOptions
from pliant.errors import BadRequest

_CHUNK = 1 << 16
_RUNS_KEPT = 5


class PodLogs:
    """Keeps and reads logs; a reader who follows is woken by writes and by the end, never by a clock."""

    def __init__(self, folder: Path, files: FileWatch) -> None:
        self._folder = folder
        self._files = files
        self._open: dict[Path, list[asyncio.Event]] = {}
        """Logs of containers that run, and those who follow them."""

    def begin(self, uid: str, container: str, run: int) -> Path:
        """The first file for a run that is about to start."""
        path = self._folder / uid / "logs" / container / f"{run}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._open[path] = []
        RunLog(path.with_name(f"{run - _RUNS_KEPT}.log")).remove()
        return path

    def end(self, path: Path) -> None:
        """The run is over: whoever follows may stop at the end of the file."""
        for follower in self._open.pop(path, ()):
            follower.set()

    async def read(self, pod: dict[str, Any], container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The output of one container of a pod, in pieces of any size."""
        log = RunLog(self._chosen(pod, container, is_previous=options.previous))
        stamping = Stamping(log) if options.timestamps else None
        left = options.limit_bytes
        async for place, chunk in self._pieces(log, _start(log, options), follow=options.follow):
            piece = stamping.stamped(place, chunk) if stamping else chunk
            yield piece if left is None else piece[:left]
            if left is not None and (left := left - len(piece)) <= 0:
                return

    async def _pieces(self, log: RunLog, start: Place, *, follow: bool) -> AsyncIterator[tuple[Place, bytes]]:
        """What was written from a place on, with the place of each piece; the files one after the other."""
        woken = asyncio.Event()
        followers = self._open.get(log.path, []) if follow else []
        followers.append(woken)
        try:
            number: int | None = start.number
            offset = start.offset
            while number is not None:
                try:
                    handle = os.open(log.file(number), os.O_RDONLY)
                except FileNotFoundError:
                    number, offset = log.after(number), 0
                    continue
                try:
                    async for piece in self._pieces_of(
                        log, Place(number, offset), handle, woken if follow else None
                    ):
                        yield piece
                finally:
                    os.close(handle)
                number, offset = log.after(number), 0
        finally:
            followers.remove(woken)

    async def _pieces_of(
        self, log: RunLog, place: Place, handle: int, woken: asyncio.Event | None
    ) -> AsyncIterator[tuple[Place, bytes]]:
        """The pieces of one file, until it is complete."""
        number, offset = place
        if woken is None or log.path not in self._open:
            while chunk := os.pread(handle, _CHUNK, offset):
                yield Place(number, offset), chunk
                offset += len(chunk)
            return
        with self._files.watching(log.file(number), woken):
            while True:
                # Asked before reading: what is written before the end is read before the loop ends.
                is_over = log.path not in self._open or log.after(number) is not None
                woken.clear()
                while chunk := os.pread(handle, _CHUNK, offset):
                    yield Place(number, offset), chunk
                    offset += len(chunk)
                if is_over:
                    return
                await woken.wait()

    def _chosen(self, pod: dict[str, Any], container: str, *, is_previous: bool) -> Path:
        """The first file of the latest run, or of the one that a previous run is said to be."""
        name, uid = str(pod["metadata"]["name"]), str(pod["metadata"]["uid"])
        folder = self._folder / uid / "logs" / container
        runs = sorted({int(each.name.partition(".")[0]) for each in folder.glob("*.log*")})
        told = _told_previous(pod, container) if is_previous else None
        if told in runs:
            return folder / f"{told}.log"
        if len(runs) < 1 + is_previous:
            which = "previous terminated container" if is_previous else "container"
            raise BadRequest(400, "BadRequest", f'{which} "{container}" in pod "{name}" not found')
        return folder / f"{runs[-2 if is_previous else -1]}.log"


def _start(log: RunLog, options: LogOptions) -> Place:
    oldest = log.numbers()
    places = [Place(oldest[0] if oldest else 0, 0)]
    if options.tail_lines is not None:
        places.append(log.last_lines(options.tail_lines))
    if options.since is not None:
        places.append(log.since(options.since))
    return max(places)


def _told_previous(pod: dict[str, Any], container: str) -> int | None:
    """The run that the pod's status calls the last one that ended."""
    status = pod.get("status") or {}
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if each["name"] == container:
            ended = (each.get("lastState") or {}).get("terminated") or {}
            run = str(ended.get("containerID") or "").rpartition("/")[2]
            return int(run) if run.isdecimal() else None
    return None
