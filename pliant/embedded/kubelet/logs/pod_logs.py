"""What containers wrote: the files of each run, the last of which are kept until the pod is deleted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.embedded.kubelet.logs.inotify import FileWatcher
from pliant.embedded.kubelet.logs.log_files import ContainerLog, LineTimestamper, LogPosition
from pliant.errors import BadRequest

_READ_CHUNK_BYTES = 1 << 16
_MAX_RETAINED_RUNS = 5


class PodLogStore:
    """Keeps and reads logs; a reader who follows is woken by writes and by the end, never by a clock."""

    def __init__(self, pods_dir: Path, file_watcher: FileWatcher) -> None:
        self._pods_dir = pods_dir
        self._file_watcher = file_watcher
        self._followers: dict[Path, list[asyncio.Event]] = {}
        """Logs of containers that run, and those who follow them."""

    def open_run(self, pod_uid: str, container: str, run_number: int) -> Path:
        """The first file for a run that is about to start."""
        path = self._pods_dir / pod_uid / "logs" / container / f"{run_number}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._followers[path] = []
        ContainerLog(path.with_name(f"{run_number - _MAX_RETAINED_RUNS}.log")).delete_files()
        return path

    def close_run(self, log_path: Path) -> None:
        """The run is over: whoever follows may stop at the end of the file."""
        for follower in self._followers.pop(log_path, ()):
            follower.set()

    async def read(self, pod: dict[str, Any], container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The output of one container of a pod, in pieces of any size."""
        log = ContainerLog(self._select_log(pod, container, is_previous=options.previous))
        stamping = LineTimestamper(log) if options.timestamps else None
        left = options.limit_bytes
        async for place, chunk in self._read_chunks(log, _start_position(log, options), follow=options.follow):
            piece = stamping.add_timestamps(place, chunk) if stamping else chunk
            yield piece if left is None else piece[:left]
            if left is not None and (left := left - len(piece)) <= 0:
                return

    async def _read_chunks(
        self, log: ContainerLog, start: LogPosition, *, follow: bool
    ) -> AsyncIterator[tuple[LogPosition, bytes]]:
        """What was written from a place on, with the place of each piece; the files one after the other."""
        woken = asyncio.Event()
        followers = self._followers.get(log.path, []) if follow else []
        followers.append(woken)
        try:
            number: int | None = start.file_number
            offset = start.offset
            while number is not None:
                try:
                    handle = os.open(log.file_path(number), os.O_RDONLY)
                except FileNotFoundError:
                    number, offset = log.next_file_number(number), 0
                    continue
                try:
                    async for piece in self._read_file_chunks(
                        log, LogPosition(number, offset), handle, woken if follow else None
                    ):
                        yield piece
                finally:
                    os.close(handle)
                number, offset = log.next_file_number(number), 0
        finally:
            followers.remove(woken)

    async def _read_file_chunks(
        self, log: ContainerLog, position: LogPosition, fd: int, wakeup: asyncio.Event | None
    ) -> AsyncIterator[tuple[LogPosition, bytes]]:
        """The pieces of one file, until it is complete."""
        number, offset = position
        if wakeup is None or log.path not in self._followers:
            while chunk := os.pread(fd, _READ_CHUNK_BYTES, offset):
                yield LogPosition(number, offset), chunk
                offset += len(chunk)
            return
        with self._file_watcher.watch(log.file_path(number), wakeup):
            while True:
                # Asked before reading: what is written before the end is read before the loop ends.
                is_over = log.path not in self._followers or log.next_file_number(number) is not None
                wakeup.clear()
                while chunk := os.pread(fd, _READ_CHUNK_BYTES, offset):
                    yield LogPosition(number, offset), chunk
                    offset += len(chunk)
                if is_over:
                    return
                await wakeup.wait()

    def _select_log(self, pod: dict[str, Any], container: str, *, is_previous: bool) -> Path:
        """The first file of the latest run, or of the one that a previous run is said to be."""
        name, uid = str(pod["metadata"]["name"]), str(pod["metadata"]["uid"])
        folder = self._pods_dir / uid / "logs" / container
        runs = sorted({int(each.name.partition(".")[0]) for each in folder.glob("*.log*")})
        told = _previous_run_number(pod, container) if is_previous else None
        if told in runs:
            return folder / f"{told}.log"
        if len(runs) < 1 + is_previous:
            which = "previous terminated container" if is_previous else "container"
            raise BadRequest(400, "BadRequest", f'{which} "{container}" in pod "{name}" not found')
        return folder / f"{runs[-2 if is_previous else -1]}.log"


def _start_position(log: ContainerLog, options: LogOptions) -> LogPosition:
    oldest = log.file_numbers()
    places = [LogPosition(oldest[0] if oldest else 0, 0)]
    if options.tail_lines is not None:
        places.append(log.position_of_last_lines(options.tail_lines))
    if options.since_ns is not None:
        places.append(log.position_since(options.since_ns))
    return max(places)


def _previous_run_number(pod: dict[str, Any], container: str) -> int | None:
    """The run that the pod's status calls the last one that ended."""
    status = pod.get("status") or {}
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if each["name"] == container:
            ended = (each.get("lastState") or {}).get("terminated") or {}
            run = str(ended.get("containerID") or "").rpartition("/")[2]
            return int(run) if run.isdecimal() else None
    return None
