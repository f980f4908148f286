"""Follows the logs of all containers of pods."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from pliant.cli.output.log_lines import LineSplitter
from pliant.errors import ApiError
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod

KEPT_LINES_PER_CONTAINER = 10  # lines kept per container, for the report of a failure

LogLineHandler = Callable[[Pod, str, str], None]  # pod, container name, line
LogChunkHandler = Callable[[Pod, str, bytes], None]  # pod, container name, part of the log as it was written


class ContainerLogKey(NamedTuple):
    """One instance of a container; a restart within the pod creates another."""

    pod_uid: str
    container: str
    restart_count: int


class LogWindow(NamedTuple):
    """How much of the existing log is read."""

    tail_lines: int | None = None
    since_seconds: int | None = None


class LogStreams:
    """Opens a log stream for each container when it starts and reads it to the end."""

    def __init__(
        self,
        client: KubeClient,
        tasks: asyncio.TaskGroup,
        on_line: LogLineHandler,
        on_chunk: LogChunkHandler | None = None,
    ) -> None:
        self._client = client
        self._tasks = tasks
        self._on_line = on_line
        self._on_chunk = on_chunk
        self._streams: dict[ContainerLogKey, asyncio.Task[None]] = {}
        self._running: set[ContainerLogKey] = set()
        self._tails: dict[tuple[str, str], deque[str]] = {}
        self._chunks_received = 0

    def follow_pod(self, pod: Pod, window: LogWindow | None = None) -> None:
        """Open streams for the containers of a pod that have started since the last call."""
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            key = ContainerLogKey(pod.metadata.uid, status.name, status.restart_count)
            if status.state.running is not None:
                self._running.add(key)
            else:
                self._running.discard(key)
            has_started = status.state.running is not None or status.state.terminated is not None
            if has_started and key not in self._streams:
                stream = self._follow_container(pod, status.name, window or LogWindow())
                self._streams[key] = self._tasks.create_task(stream)

    def last_lines(self, pod_uid: str, container: str) -> tuple[str, ...]:
        return tuple(self._tails.get((pod_uid, container), ()))

    def last_line_of_pod(self, pod_uid: str) -> str:
        tails = [tail for (pod, _), tail in self._tails.items() if pod == pod_uid and tail]
        return tails[-1][-1] if tails else ""

    def mark_pod_deleted(self, pod: Pod) -> None:
        self._running = {key for key in self._running if key.pod_uid != pod.metadata.uid}

    async def drain_and_close(self, idle_timeout: timedelta) -> None:
        """Read the streams of ended containers to the end, unless they are idle for too long; close all streams."""
        open_streams = {key: stream for key, stream in self._streams.items() if not stream.done()}
        unread = {stream for key, stream in open_streams.items() if key not in self._running}
        received_before = -1
        while unread and received_before != self._chunks_received:
            received_before = self._chunks_received
            _, unread = await asyncio.wait(unread, timeout=idle_timeout.total_seconds())
        for stream in open_streams.values():
            stream.cancel()

    async def _follow_container(self, pod: Pod, container: str, window: LogWindow) -> None:
        meta, splitter, has_output = pod.metadata, LineSplitter(), False
        tail = self._tails.setdefault((meta.uid, container), deque(maxlen=KEPT_LINES_PER_CONTAINER))

        def emit(lines: list[str]) -> None:
            tail.extend(lines)
            for line in lines:
                self._on_line(pod, container, line)

        try:
            async for chunk in self._client.stream_logs(
                meta.namespace,
                meta.name,
                container=container,
                follow=True,
                tail_lines=window.tail_lines,
                since_seconds=window.since_seconds,
            ):
                has_output = True
                self._chunks_received += 1
                if self._on_chunk is not None:
                    self._on_chunk(pod, container, chunk)
                emit(splitter.feed(chunk))
                await asyncio.sleep(0)  # a container that writes constantly must not block other tasks
        except ApiError as error:
            # A container that never ran has no log.
            if has_output:
                emit([*splitter.flush(), f"(log stream interrupted: {error})"])
        else:
            emit(splitter.flush())
