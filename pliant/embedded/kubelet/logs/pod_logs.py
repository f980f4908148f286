"""The logs of containers: created for each run, and read by the API server."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.embedded.kubelet.environment.variables import PodObject
from pliant.embedded.kubelet.logs.log_files import ContainerLog, LineTimestamper, LogPosition
from pliant.embedded.kubelet.pods.status import find_container_status
from pliant.embedded.kubelet.volumes.beneath import touch_file
from pliant.errors import BadRequest

_READ_CHUNK_BYTES = 1 << 16
_IN_MODIFY = 0x2
_INOTIFY_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)
_MAX_RETAINED_RUNS = 5

LogChunk = tuple[LogPosition, bytes]


class FileWatcher:
    """Sets an event whenever a watched file is written, with one inotify instance for all files."""

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


class PodLogStore:
    """Creates and reads logs; writes and the end of a run wake the readers that follow a log."""

    def __init__(self, pods_dir: Path, file_watcher: FileWatcher) -> None:
        self._pods_dir = pods_dir
        self._file_watcher = file_watcher
        self._followers: dict[Path, list[asyncio.Event]] = {}
        """The events of the readers that follow the log of a running container, by path of the log."""

    def create_run_log(self, pod_uid: str, container: str, run_number: int) -> Path:
        """Create the log of a run, delete logs of older runs, and return its path."""
        path = touch_file(self._pods_dir, pod_uid, "logs", container, f"{run_number}.log", mode=0o644)
        self._followers[path] = []
        ContainerLog(path.with_name(f"{run_number - _MAX_RETAINED_RUNS}.log")).delete_files()
        return path

    def mark_log_complete(self, log_path: Path) -> None:
        """Mark a log as complete, so that its followers stop at its end."""
        for follower in self._followers.pop(log_path, ()):
            follower.set()

    def logs_dir(self, pod_uid: str) -> Path:
        return self._pods_dir / pod_uid / "logs"

    def read_container_log(self, pod: PodObject, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Return the log of a container in chunks of any size."""
        return self.read_log(self._select_log(pod, container, is_previous=options.previous), options)

    async def read_log(self, log_path: Path, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the log of one run in chunks of any size."""
        log = ContainerLog(log_path)
        timestamper = LineTimestamper(log) if options.timestamps else None
        bytes_left = options.limit_bytes
        async for position, chunk in self._read_chunks(log, _start_position(log, options), follow=options.follow):
            data = timestamper.add_timestamps(position, chunk) if timestamper else chunk
            yield data if bytes_left is None else data[:bytes_left]
            if bytes_left is not None and (bytes_left := bytes_left - len(data)) <= 0:
                return

    async def _read_chunks(self, log: ContainerLog, start: LogPosition, *, follow: bool) -> AsyncIterator[LogChunk]:
        """Yield position and content of each chunk from a position on, through all files of the log."""
        wakeup = asyncio.Event()
        followers = self._followers.get(log.path, []) if follow else []
        followers.append(wakeup)
        try:
            number: int | None = start.file_number
            offset = start.offset
            while number is not None:
                try:
                    fd = os.open(log.file_path(number), os.O_RDONLY | os.O_NOFOLLOW)
                except FileNotFoundError:
                    number, offset = log.next_file_number(number), 0
                    continue
                position = LogPosition(number, offset)
                try:
                    async for chunk in self._read_file_chunks(log, position, fd, wakeup if follow else None):
                        yield chunk
                finally:
                    os.close(fd)
                number, offset = log.next_file_number(number), 0
        finally:
            followers.remove(wakeup)

    async def _read_file_chunks(
        self, log: ContainerLog, position: LogPosition, fd: int, wakeup: asyncio.Event | None
    ) -> AsyncIterator[LogChunk]:
        """Yield the chunks of one file until it is complete, or until its present end without `wakeup`."""
        number, offset = position
        if wakeup is None or log.path not in self._followers:
            while chunk := os.pread(fd, _READ_CHUNK_BYTES, offset):
                yield LogPosition(number, offset), chunk
                offset += len(chunk)
            return
        with self._file_watcher.watch(log.file_path(number), wakeup):
            while True:
                # Checked before reading, so that nothing written before the completion is missed.
                is_complete = log.path not in self._followers or log.next_file_number(number) is not None
                wakeup.clear()
                while chunk := os.pread(fd, _READ_CHUNK_BYTES, offset):
                    yield LogPosition(number, offset), chunk
                    offset += len(chunk)
                if is_complete:
                    return
                await wakeup.wait()

    def _select_log(self, pod: PodObject, container: str, *, is_previous: bool) -> Path:
        """Return the log of the latest run, or of the previous one."""
        pod_name, uid = str(pod["metadata"]["name"]), str(pod["metadata"]["uid"])
        directory = self.logs_dir(uid) / container
        runs = sorted({int(path.name.partition(".")[0]) for path in directory.glob("*.log*")})
        previous_run = _previous_run_number(pod, container) if is_previous else None
        if previous_run in runs:
            return directory / f"{previous_run}.log"
        if len(runs) < 1 + is_previous:
            which = "previous terminated container" if is_previous else "container"
            raise BadRequest(400, "BadRequest", f'{which} "{container}" in pod "{pod_name}" not found')
        return directory / f"{runs[-2 if is_previous else -1]}.log"


def _start_position(log: ContainerLog, options: LogOptions) -> LogPosition:
    numbers = log.file_numbers()
    positions = [LogPosition(numbers[0] if numbers else 0, 0)]
    if options.tail_lines is not None:
        positions.append(log.position_of_last_lines(options.tail_lines))
    if options.since_ns is not None:
        positions.append(log.position_since(options.since_ns))
    return max(positions)


def _previous_run_number(pod: PodObject, container: str) -> int | None:
    """Return the run number of the last terminated container in the pod status."""
    terminated = (find_container_status(pod, container).get("lastState") or {}).get("terminated") or {}
    run_number = str(terminated.get("containerID") or "").rpartition("/")[2]
    return int(run_number) if run_number.isdecimal() else None
