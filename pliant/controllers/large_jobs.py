"""Keeps large jobs from occupying the operator.

A decision hands its writes over in slices and stops when it is outdated. Few large decisions exist at a time. A large
job with nothing to do is left alone for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeVar

from pliant.errors import LeaseLost, PliantError, StaleDecision
from pliant.kube.transport.write_flows import QueuedWrite, WriteClass, WriteFlow, WriteQueue
from pliant.kube.transport.write_limiter import MAX_WRITES_IN_FLIGHT
from pliant.model.job import Job
from pliant.model.state import EngineState

MAX_SLICES_AHEAD = 2
"""How many slices of a decision may be queued or in flight: one is being sent, and the next one is ready."""

MAX_WAVE_SECONDS = 30.0
"""After this time the rest of a decision is not handed over: it may be outdated, and the job is reconciled again."""

MAX_LARGE_DECISIONS = 16
"""Decisions with more creations than a slice that exist at a time: one about 10,000 replicas has 40 MB of manifests."""

MAX_REPLICAS_WITHOUT_HOLD = 200
HOLD_TIME_PER_REPLICA = timedelta(microseconds=100)
"""Four times what a decision takes for each replica: a large job uses at most a fifth of the operator's time."""

T = TypeVar("T")


def hold_time(job: Job) -> timedelta:
    """Return for how long a job with nothing to do is left alone: every change of a pod concerns all its pods."""
    size = _size(job)
    return size * HOLD_TIME_PER_REPLICA if size > MAX_REPLICAS_WITHOUT_HOLD else timedelta(0)


def may_create_many_pods(job: Job, state: EngineState | None, pod_count: int, slice_size: int) -> bool:
    """Return whether the decision about a job with this number of pods may contain more creations than a slice."""
    is_finished = state is not None and state.phase.is_final
    return not job.is_suspended and not is_finished and _size(job) - pod_count > slice_size


def _size(job: Job) -> int:
    return sum(group.size for group in job.groups)


class Wave:
    """The writes of one decision; `check_current` raises `StaleDecision` once the decision is outdated."""

    def __init__(self, slice_size: int = MAX_WRITES_IN_FLIGHT, check_current: Callable[[], None] | None = None) -> None:
        self.check_current = check_current
        self.is_complete = True
        """Whether all writes were handed over."""
        self._max_outstanding = MAX_SLICES_AHEAD * slice_size
        self._ends_at = asyncio.get_running_loop().time() + MAX_WAVE_SECONDS
        self._stopped_by: StaleDecision | LeaseLost | None = None

    async def run(self, items: Iterable[T], write: Callable[[T], Awaitable[None]]) -> list[tuple[T, PliantError]]:
        """Write items concurrently, in order, and return those that failed with their errors.

        When the time of the wave is over, the rest is left and `is_complete` is False. Raise `StaleDecision` if the
        decision is outdated, and `LeaseLost` if another operator leads; all writes that were handed over have ended.
        """
        pending, failures = list(items), []
        remaining = iter(pending)
        handed_over = 0

        async def write_next() -> None:
            nonlocal handed_over
            while handed_over < len(pending) and not self._is_over():
                item = next(remaining)
                handed_over += 1
                try:
                    await write(item)
                except (StaleDecision, LeaseLost) as error:
                    self._stopped_by = error
                except PliantError as error:
                    failures.append((item, error))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(len(pending), self._max_outstanding)):
                tasks.create_task(write_next())
        if self._stopped_by is not None:
            raise self._stopped_by
        self.is_complete = self.is_complete and handed_over == len(pending)
        return failures

    def _is_over(self) -> bool:
        if self.check_current is not None and self._stopped_by is None:
            try:
                self.check_current()
            except StaleDecision as error:
                self._stopped_by = error
        return self._stopped_by is not None or asyncio.get_running_loop().time() >= self._ends_at


class LargeDecisionLimiter:
    """Limits the large decisions in progress; the jobs that wait take turns like their writes."""

    def __init__(self, limit: int = MAX_LARGE_DECISIONS) -> None:
        self._free = limit
        self._queue = WriteQueue()

    @asynccontextmanager
    async def permit(self, flow: WriteFlow) -> AsyncIterator[None]:
        await self._acquire(flow)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, flow: WriteFlow) -> None:
        if self._free:
            self._free -= 1
            return
        loop = asyncio.get_running_loop()
        waiter = QueuedWrite(flow, WriteClass.CREATION, loop.create_future(), loop.time())
        self._queue.push(waiter)
        try:
            await waiter.slot
        except asyncio.CancelledError:
            self._queue.withdraw(waiter)
            if not waiter.slot.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        while (waiter := self._queue.pop()) is not None:
            if not waiter.slot.done():
                waiter.slot.set_result(0)
                return
        self._free += 1
