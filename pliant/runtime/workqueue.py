"""A work queue with deduplication, delays, rate limiting and fairness between namespaces."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from pliant.runtime.metrics import Histogram

# After this many doublings every sensible initial delay has reached its maximum.
_MAX_DOUBLINGS = 40


K = TypeVar("K", bound=Hashable)


class QueueClosed(Exception):
    """The queue is closed; `get` returns no more keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays that double from `initial` to `maximum`, each shortened at random by up to half."""

    initial: timedelta = timedelta(milliseconds=50)
    maximum: timedelta = timedelta(minutes=1)

    def delay(self, failures: int, rng: random.Random) -> timedelta:
        """Return the delay after this many consecutive failures (at least one)."""
        doubled = self.initial.total_seconds() * 2.0 ** min(failures - 1, _MAX_DOUBLINGS)
        return timedelta(seconds=min(self.maximum.total_seconds(), doubled) * rng.uniform(0.5, 1.0))


def key_namespace(key: Any) -> str:
    """Return the namespace of a key that has one; all other keys share one lane."""
    namespace: str = getattr(key, "namespace", "")
    return namespace


class WorkQueue(Generic[K]):
    """Keys to reconcile, now or later.

    A key is queued at most once: ready, delayed by a timer, or active and to be requeued when its worker is done.
    The earliest requested time wins.

    Ready keys are kept in one lane per namespace, served round-robin, so a namespace with a thousand ready keys
    delays the keys of another namespace by at most one reconcile.
    """

    def __init__(
        self,
        *,
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
        lane_of: Callable[[K], str] = key_namespace,
    ) -> None:
        self.wait_durations = Histogram()  # how long keys were ready before a worker took them
        self._backoff = backoff or Backoff()
        self._rng = rng or random.Random()
        self._lane_of = lane_of
        self._lanes: dict[str, deque[tuple[K, float]]] = {}
        """Ready keys and the time they became ready, by lane; empty lanes are removed."""
        self._lane_order: deque[str] = deque()  # every lane once, the next one to serve first
        self._waiting: set[K] = set()  # ready keys, and active keys that become ready when their worker is done
        self._active: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._holds: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._ready_count = asyncio.Semaphore(0)
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._timers)

    @property
    def depth(self) -> int:
        """The number of keys that are ready or become ready when their worker is done."""
        return len(self._waiting)

    @property
    def active_count(self) -> int:
        return len(self._active)

    def add(self, key: K) -> None:
        """Queue a key now, unless it is queued already."""
        if self._is_closed or key in self._waiting:
            return
        self._cancel_timer(key)
        self._waiting.add(key)
        if key not in self._active:
            self._enqueue_ready(key)

    def add_after(self, key: K, delay: timedelta) -> None:
        """Queue a key after a delay, unless it is due earlier."""
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
        """Queue a key after its backoff, which grows until `forget`; return the delay."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        wait = max(min_delay, self._backoff.delay(failures, self._rng))
        self.add_after(key, wait)
        return wait

    def hold(self, key: K, delay: timedelta) -> None:
        """Let no worker have a key before the delay is over; the reconcile of a large object is expensive."""
        if self._is_closed or delay <= timedelta(0):
            return
        if (previous := self._holds.pop(key, None)) is not None:
            previous.cancel()
        self._holds[key] = asyncio.get_running_loop().call_later(delay.total_seconds(), self._end_hold, key)

    def failure_count(self, key: K) -> int:
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for the next key, which no other worker gets until `done`; raise `QueueClosed` after `close`."""
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
        """Mark the work on a key as finished; if it was added meanwhile, it is ready again."""
        self._active.discard(key)
        if key in self._waiting:
            self._enqueue_ready(key)

    def close(self) -> None:
        """Close the queue: wake all workers that wait in `get` and cancel all timers."""
        self._is_closed = True
        for timers in (self._timers, self._holds):
            for timer in timers.values():
                timer.cancel()
            timers.clear()
        self._ready_count.release()

    def _end_hold(self, key: K) -> None:
        del self._holds[key]
        if key in self._waiting and key not in self._active:
            self._enqueue_ready(key)

    def _enqueue_ready(self, key: K) -> None:
        if key in self._holds:
            return
        name = self._lane_of(key)
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = deque()
            self._lane_order.append(name)
        lane.append((key, asyncio.get_running_loop().time()))
        self._ready_count.release()

    def _pop_next(self) -> tuple[K, float]:
        """Remove the first key of the next lane; a lane with more keys goes to the end of the line."""
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
