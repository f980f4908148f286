"""Follows what every container writes, from its start to its last line."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from pliant.cli.lines import LineSplitter
from pliant.errors import ApiError
from pliant.kube.client import KubeClient
from pliant.kube.objects import ContainerStatus, Pod

TAIL = 10
"""Lines remembered of each container, to be shown if it turns out to be the culprit."""

OnLine = Callable[[Pod, str, str], None]
"""Takes a pod, the name of a container and a line it wrote."""


class Spell(NamedTuple):
    """One life of one container; a restart within the pod begins another."""

    uid: str
    container: str
    restart: int


class Window(NamedTuple):
    """How much of what was written before is read."""

    tail: int | None = None
    since: int | None = None
    """Seconds."""


class LogStreams:
    """Opens a stream for each container as soon as it has started, and reads it to its end."""

    def __init__(self, client: KubeClient, tasks: asyncio.TaskGroup, on_line: OnLine) -> None:
        self._client = client
        self._tasks = tasks
        self._on_line = on_line
        self._streams: dict[Spell, asyncio.Task[None]] = {}
        self._running: set[Spell] = set()
        """Those that go on writing, as far as is known."""
        self._tails: dict[tuple[str, str], deque[str]] = {}
        self._heard = 0

    def notice(self, pod: Pod, window: Window | None = None) -> None:
        """Begin to follow whatever has started in this pod since the last look."""
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            spell = Spell(pod.metadata.uid, status.name, status.restart_count)
            if status.state.running is not None:
                self._running.add(spell)
            else:
                self._running.discard(spell)
            if _has_started(status) and spell not in self._streams:
                self._streams[spell] = self._tasks.create_task(self._follow(pod, status.name, window or Window()))

    def tail(self, uid: str, container: str) -> tuple[str, ...]:
        """The last lines of a container."""
        return tuple(self._tails.get((uid, container), ()))

    def last_line(self, uid: str) -> str:
        """What any container of a pod wrote last; empty if nothing."""
        tails = [tail for (pod, _), tail in self._tails.items() if pod == uid and tail]
        return tails[-1][-1] if tails else ""

    def gone(self, pod: Pod) -> None:
        """Take in that a pod is no more: what it wrote last is on its way."""
        self._running = {spell for spell in self._running if spell.uid != pod.metadata.uid}

    async def drain(self, silence: timedelta) -> None:
        """Read to the end what has ended, unless that falls silent for so long; then let go of everything."""
        open_ones = {spell: stream for spell, stream in self._streams.items() if not stream.done()}
        unread = {stream for spell, stream in open_ones.items() if spell not in self._running}
        heard = -1
        while unread and heard != self._heard:
            heard = self._heard
            _, unread = await asyncio.wait(unread, timeout=silence.total_seconds())
        for stream in open_ones.values():
            stream.cancel()

    async def _follow(self, pod: Pod, container: str, window: Window) -> None:
        meta, splitter, has_spoken = pod.metadata, LineSplitter(), False
        tail = self._tails.setdefault((meta.uid, container), deque(maxlen=TAIL))

        def tell(lines: list[str]) -> None:
            tail.extend(lines)
            for line in lines:
                self._on_line(pod, container, line)

        try:
            async for chunk in self._client.logs(
                meta.namespace, meta.name, container=container, follow=True, tail=window.tail, since=window.since
            ):
                has_spoken = True
                self._heard += 1
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
