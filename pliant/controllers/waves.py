"""Hands the writes of a decision over in slices, and stops when the decision is outdated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from pliant.errors import PliantError, StaleDecision
from pliant.kube.transport.write_limiter import MAX_WRITES_IN_FLIGHT

MAX_SLICES_AHEAD = 2
"""How many slices of a decision may be queued or in flight: one is being sent, and the next one is ready."""

MAX_WAVE_SECONDS = 30.0
"""After this time the rest of a decision is not handed over: it may be outdated, and the job is reconciled again."""

T = TypeVar("T")


class Wave:
    """The writes of one decision; `check_current` raises `StaleDecision` once the decision is outdated."""

    def __init__(self, slice_size: int = MAX_WRITES_IN_FLIGHT, check_current: Callable[[], None] | None = None) -> None:
        self.check_current = check_current
        self.is_complete = True
        """Whether all writes were handed over."""
        self._max_outstanding = MAX_SLICES_AHEAD * slice_size
        self._ends_at = asyncio.get_running_loop().time() + MAX_WAVE_SECONDS
        self._staleness: StaleDecision | None = None

    async def run(self, items: Iterable[T], write: Callable[[T], Awaitable[None]]) -> list[tuple[T, PliantError]]:
        """Write items concurrently, in order, and return those that failed with their errors.

        When the wave ends early, the rest is left and `is_complete` is False; raise `StaleDecision` if it ended because
        the decision is outdated. All writes that were handed over have ended in each case.
        """
        pending, failures = list(items), []
        remaining = iter(pending)
        handed_over = 0

        async def write_next() -> None:
            nonlocal handed_over
            while not self._is_over() and handed_over < len(pending):
                item = next(remaining)
                handed_over += 1
                try:
                    await write(item)
                except StaleDecision as error:
                    self._staleness = error
                except PliantError as error:
                    failures.append((item, error))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(len(pending), self._max_outstanding)):
                tasks.create_task(write_next())
        if self._staleness is not None:
            raise self._staleness
        self.is_complete = self.is_complete and handed_over == len(pending)
        return failures

    def _is_over(self) -> bool:
        if self.check_current is not None and self._staleness is None:
            try:
                self.check_current()
            except StaleDecision as error:
                self._staleness = error
        return self._staleness is not None or asyncio.get_running_loop().time() >= self._ends_at
