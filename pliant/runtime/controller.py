"""The loop of every controller: take a key, reconcile it, and never let one key's trouble touch another."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from datetime import timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from pliant.errors import ApiError, Conflict, LeaseLost, NotYet, UserError
from pliant.runtime.metrics import Histogram
from pliant.runtime.queue import QueueClosed, WorkQueue

K = TypeVar("K", bound=Hashable)

log = logging.getLogger(__name__)


class Result(StrEnum):
    """How a look at a key ended."""

    DONE = "done"
    OVERTAKEN = "overtaken"
    """Somebody else wrote first."""
    WAITING = "waiting"
    REFUSED = "refused"
    """A user must mend something."""
    FAILED = "failed"


class Controller(Generic[K]):
    """Runs `reconcile` for every key added to `queue`; what it returns is when to look again."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[timedelta | None]],
        *,
        workers: int = 16,
        queue: WorkQueue[K] | None = None,
        grace: timedelta = timedelta(seconds=5),
    ) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue() if queue is None else queue
        self.results: Counter[Result] = Counter()
        self.durations = Histogram()
        self.workers = workers
        self._reconcile = reconcile
        self._grace = grace

    async def run(self) -> None:
        """Work until cancelled; work under way then has the grace period to finish."""
        async with asyncio.TaskGroup() as tasks:
            workers = [tasks.create_task(self._work(), name=f"{self.name}-{i}") for i in range(self.workers)]
            try:
                await asyncio.Event().wait()
            finally:
                self.queue.close()
                await asyncio.wait(workers, timeout=self._grace.total_seconds())

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                await self._look(key)
            finally:
                self.queue.done(key)

    async def _look(self, key: K) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        self.results[await self._result(key)] += 1
        self.durations.note(clock() - began)

    async def _result(self, key: K) -> Result:
        try:
            look_again = await self._reconcile(key)
        except LeaseLost:
            raise  # the end of all work, not the trouble of one key
        except Conflict as problem:
            self._retry_conflict(key, problem)
            return Result.OVERTAKEN
        except UserError as problem:
            self.queue.forget(key)
            self._tell(logging.WARNING, "reconcile refused", key, problem)
            return Result.REFUSED
        except NotYet as problem:
            wait = self.queue.add_failed(key)
            self._tell(logging.DEBUG, "reconcile must wait", key, problem, wait)
            return Result.WAITING
        except ApiError as problem:
            wait = self.queue.add_failed(key, at_least=timedelta(seconds=problem.retry_after or 0.0))
            self._tell(logging.WARNING, "reconcile failed", key, problem, wait)
            return Result.FAILED
        except Exception:  # one key that goes wrong in a way nobody foresaw must not stop the others
            wait = self.queue.add_failed(key)
            extra = {"controller": self.name, "key": str(key), "retry_in": wait.total_seconds()}
            log.exception("reconcile failed", extra=extra)
            return Result.FAILED
        self.queue.forget(key)
        if look_again is not None:
            self.queue.add_after(key, look_again)
        return Result.DONE

    def _retry_conflict(self, key: K, problem: Conflict) -> None:
        """Read again at once the first time; if what is read stays behind, give it time to catch up."""
        is_first = self.queue.failures(key) == 0
        wait = self.queue.add_failed(key)
        if is_first:
            self.queue.add(key)
        self._tell(logging.DEBUG, "reconcile overtaken", key, problem, timedelta(0) if is_first else wait)

    def _tell(self, level: int, event: str, key: K, problem: Exception, wait: timedelta | None = None) -> None:
        extra: dict[str, object] = {"controller": self.name, "key": str(key), "because": str(problem)}
        if wait is not None:
            extra["retry_in"] = wait.total_seconds()
        log.log(level, event, extra=extra)
