"""Hands out keys that need a look: each once however often it was added, to one worker at a time, fairly."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Any, Generic, TypeVar

from pliant.runtime.backoff import Backoff
from pliant.runtime.metrics import Histogram

K = TypeVar("K", bound=Hashable)


class QueueClosed(Exception):
    """Nothing more will be handed out."""


def key_namespace(key: Any) -> str:
    """The namespace of a key that has one; all other keys share a lane."""
    namespace: str = getattr(key, "namespace", "")
    return namespace


class WorkQueue(Generic[K]):
    """Keys waiting for a look, now or at some time.

    A key waits in one place at most: ready, or behind a timer, or (while somebody works on it) to be looked at
    again. The earliest look asked for wins and replaces later ones: whoever looks says when to look again.

    Ready keys stand in lanes, one per namespace, and lanes take turns: whoever adds a thousand keys delays nobody
    else by more than one.
    """

    def __init__(
        self,
        *,
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
        lane_of: Callable[[K], str] = key_namespace,
    ) -> None:
        self.wait_durations = Histogram()
        """How long keys were ready before somebody took them."""
        self._backoff = backoff or Backoff()
        self._rng = rng or random.Random()
        self._lane_of = lane_of
        self._lanes: dict[str, deque[tuple[K, float]]] = {}
        """Ready keys and since when, by lane; no lane is empty."""
        self._lane_order: deque[str] = deque()
        """Every lane once, the next one first."""
        self._waiting: set[K] = set()
        """Ready, or to be ready as soon as the work on them is done."""
        self._active: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._ready_count = asyncio.Semaphore(0)
        self._is_closed = False

    def __len__(self) -> int:
        """How many keys wait for a look, timers included."""
        return len(self._waiting) + len(self._timers)

    @property
    def depth(self) -> int:
        """How many keys wait for a worker and for nothing else."""
        return len(self._waiting)

    @property
    def active_count(self) -> int:
        """How many keys are being worked on."""
        return len(self._active)

    def add(self, key: K) -> None:
        """Have a key looked at as soon as a worker is free."""
        if self._is_closed or key in self._waiting:
            return
        self._cancel_timer(key)
        self._waiting.add(key)
        if key not in self._active:
            self._enqueue_ready(key)

    def add_after(self, key: K, delay: timedelta) -> None:
        """Have a key looked at after a delay, unless an earlier look is planned."""
        if self._is_closed or key in self._waiting:
            return
        if delay <= timedelta(0):
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + delay.total_seconds()
        planned = self._timers.get(key)
        if planned is None or when < planned.when():
            self._cancel_timer(key)
            self._timers[key] = loop.call_at(when, self.add, key)

    def add_rate_limited(self, key: K, *, min_delay: timedelta = timedelta(0)) -> timedelta:
        """Have a key looked at after its back-off, which grows until `forget`; answers how long that is."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        wait = max(min_delay, self._backoff.delay(failures, self._rng))
        self.add_after(key, wait)
        return wait

    def failure_count(self, key: K) -> int:
        """How often in a row work on a key has failed."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Let the back-off of a key start over."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; nobody else gets it until `done`. Raises `QueueClosed` after `close`."""
        await self._ready_count.acquire()
        if self._is_closed:
            self._ready_count.release()
            raise QueueClosed
        key, since = self._pop_next()
        self.wait_durations.observe(asyncio.get_running_loop().time() - since)
        self._waiting.discard(key)
        self._active.add(key)
        return key

    def done(self, key: K) -> None:
        """Say that the work on a key is over; if it was added meanwhile it is ready again."""
        self._active.discard(key)
        if key in self._waiting:
            self._enqueue_ready(key)

    def close(self) -> None:
        """Hand out nothing more, wake all who wait and drop all timers."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._ready_count.release()

    def _enqueue_ready(self, key: K) -> None:
        name = self._lane_of(key)
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = deque()
            self._lane_order.append(name)
        lane.append((key, asyncio.get_running_loop().time()))
        self._ready_count.release()

    def _pop_next(self) -> tuple[K, float]:
        """The first key of the lane whose turn it is; if it has more, it waits for its next turn."""
        name = self._lane_order.popleft()
        lane = self._lanes[name]
        first = lane.popleft()
        if lane:
            self._lane_order.append(name)
        else:
            del self._lanes[name]
        return first

    def _cancel_timer(self, key: K) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
