"""The loop of every controller: take a key, reconcile it, and never let one key's trouble touch another."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from datetime import timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from pliant.errors import ApiError, Conflict, LeaseLost, RetryLater, UserError
from pliant.runtime.metrics import Histogram
from pliant.runtime.workqueue import QueueClosed, WorkQueue

K = TypeVar("K", bound=Hashable)

log = logging.getLogger(__name__)


class ReconcileResult(StrEnum):
    """How a look at a key ended."""

    DONE = "done"
    CONFLICT = "overtaken"
    """Somebody else wrote first."""
    WAITING = "waiting"
    USER_ERROR = "refused"
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
        shutdown_grace: timedelta = timedelta(seconds=5),
    ) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue() if queue is None else queue
        self.results: Counter[ReconcileResult] = Counter()
        self.durations = Histogram()
        self.workers = workers
        self._reconcile = reconcile
        self._shutdown_grace = shutdown_grace

    async def run(self) -> None:
        """Work until cancelled; work under way then has the grace period to finish."""
        async with asyncio.TaskGroup() as tasks:
            workers = [tasks.create_task(self._worker_loop(), name=f"{self.name}-{i}") for i in range(self.workers)]
            try:
                await asyncio.Event().wait()
            finally:
                self.queue.close()
                await asyncio.wait(workers, timeout=self._shutdown_grace.total_seconds())

    async def _worker_loop(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                await self._process(key)
            finally:
                self.queue.done(key)

    async def _process(self, key: K) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        self.results[await self._run_reconcile(key)] += 1
        self.durations.observe(clock() - began)

    async def _run_reconcile(self, key: K) -> ReconcileResult:
        try:
            look_again = await self._reconcile(key)
        except LeaseLost:
            raise  # the end of all work, not the trouble of one key
        except Conflict as problem:
            self._retry_conflict(key, problem)
            return ReconcileResult.CONFLICT
        except UserError as problem:
            self.queue.forget(key)
            self._log_result(logging.WARNING, "reconcile refused", key, problem)
            return ReconcileResult.USER_ERROR
        except RetryLater as problem:
            wait = self.queue.add_rate_limited(key)
            self._log_result(logging.DEBUG, "reconcile must wait", key, problem, wait)
            return ReconcileResult.WAITING
        except ApiError as problem:
            wait = self.queue.add_rate_limited(key, min_delay=timedelta(seconds=problem.retry_after or 0.0))
            self._log_result(logging.WARNING, "reconcile failed", key, problem, wait)
            return ReconcileResult.FAILED
        except Exception:  # one key that goes wrong in a way nobody foresaw must not stop the others
            wait = self.queue.add_rate_limited(key)
            extra = {"controller": self.name, "key": str(key), "retry_in": wait.total_seconds()}
            log.exception("reconcile failed", extra=extra)
            return ReconcileResult.FAILED
        self.queue.forget(key)
        if look_again is not None:
            self.queue.add_after(key, look_again)
        return ReconcileResult.DONE

    def _retry_conflict(self, key: K, error: Conflict) -> None:
        """Read again at once the first time; if what is read stays behind, give it time to catch up."""
        is_first = self.queue.failure_count(key) == 0
        wait = self.queue.add_rate_limited(key)
        if is_first:
            self.queue.add(key)
        self._log_result(logging.DEBUG, "reconcile overtaken", key, error, timedelta(0) if is_first else wait)

    def _log_result(
        self, level: int, message: str, key: K, error: Exception, retry_in: timedelta | None = None
    ) -> None:
        extra: dict[str, object] = {"controller": self.name, "key": str(key), "because": str(error)}
        if retry_in is not None:
            extra["retry_in"] = retry_in.total_seconds()
        log.log(level, message, extra=extra)
