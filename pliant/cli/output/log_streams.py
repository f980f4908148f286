"""Follows what every container writes, from its start to its last line."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from pliant.cli.output.log_lines import LineSplitter
from pliant.errors import ApiError
from pliant.kube.client import KubeClient
from pliant.kube.objects import ContainerStatus, Pod

TAIL_LINES = 10
"""Lines remembered of each container, to be shown if it turns out to be the culprit."""

LogLineHandler = Callable[[Pod, str, str], None]
"""Takes a pod, the name of a container and a line it wrote."""


class ContainerLogKey(NamedTuple):
    """One life of one container; a restart within the pod begins another."""

    pod_uid: str
    container: str
    restart_count: int


class LogWindow(NamedTuple):
    """How much of what was written before is read."""

    tail_lines: int | None = None
    since_seconds: int | None = None
    """Seconds."""


class LogStreams:
    """Opens a stream for each container as soon as it has started, and reads it to its end."""

    def __init__(self, client: KubeClient, tasks: asyncio.TaskGroup, on_line: LogLineHandler) -> None:
        self._client = client
        self._tasks = tasks
        self._on_line = on_line
        self._streams: dict[ContainerLogKey, asyncio.Task[None]] = {}
        self._running: set[ContainerLogKey] = set()
        """Those that go on writing, as far as is known."""
        self._tails: dict[tuple[str, str], deque[str]] = {}
        self._chunks_received = 0

    def follow_pod(self, pod: Pod, window: LogWindow | None = None) -> None:
        """Begin to follow whatever has started in this pod since the last look."""
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            spell = ContainerLogKey(pod.metadata.uid, status.name, status.restart_count)
            if status.state.running is not None:
                self._running.add(spell)
            else:
                self._running.discard(spell)
            if _has_started(status) and spell not in self._streams:
                self._streams[spell] = self._tasks.create_task(
                    self._follow_container(pod, status.name, window or LogWindow())
                )

    def last_lines(self, pod_uid: str, container: str) -> tuple[str, ...]:
        """The last lines of a container."""
        return tuple(self._tails.get((pod_uid, container), ()))

    def last_line_of_pod(self, pod_uid: str) -> str:
        """What any container of a pod wrote last; empty if nothing."""
        tails = [tail for (pod, _), tail in self._tails.items() if pod == pod_uid and tail]
        return tails[-1][-1] if tails else ""

    def mark_pod_deleted(self, pod: Pod) -> None:
        """Take in that a pod is no more: what it wrote last is on its way."""
        self._running = {spell for spell in self._running if spell.pod_uid != pod.metadata.uid}

    async def drain(self, idle_timeout: timedelta) -> None:
        """Read to the end what has ended, unless that falls silent for so long; then let go of everything."""
        open_ones = {spell: stream for spell, stream in self._streams.items() if not stream.done()}
        unread = {stream for spell, stream in open_ones.items() if spell not in self._running}
        heard = -1
        while unread and heard != self._chunks_received:
            heard = self._chunks_received
            _, unread = await asyncio.wait(unread, timeout=idle_timeout.total_seconds())
        for stream in open_ones.values():
            stream.cancel()

    async def _follow_container(self, pod: Pod, container: str, window: LogWindow) -> None:
        meta, splitter, has_spoken = pod.metadata, LineSplitter(), False
        tail = self._tails.setdefault((meta.uid, container), deque(maxlen=TAIL_LINES))

        def tell(lines: list[str]) -> None:
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
                has_spoken = True
                self._chunks_received += 1
                tell(splitter.feed(chunk))
                await asyncio.sleep(0)  # a container that writes without pause must not keep everyone else waiting
        except ApiError as error:
            # A container that never came to run has no log, and a pod that is gone by now had none either.
            if has_spoken:
                tell([*splitter.close(), f"(its log breaks off: {error})"])
        else:
            tell(splitter.close())


def _has_started(status: ContainerStatus) -> bool:
    return status.state.running is not None or status.state.terminated is not None
