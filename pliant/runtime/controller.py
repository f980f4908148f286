"""The reconcile loop of every controller: take a key, reconcile it, requeue it; keys fail independently."""

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
from pliant.runtime.workqueue import WorkQueue

K = TypeVar("K", bound=Hashable)

log = logging.getLogger(__name__)


class ReconcileResult(StrEnum):
    """The outcome of one reconcile; a label value of `pliant_reconciles_total`."""

    DONE = "done"
    CONFLICT = "conflict"
    WAITING = "waiting"
    USER_ERROR = "user_error"
    FAILED = "failed"


class Controller(Generic[K]):
    """Runs `reconcile` for every key of `queue`; it returns the delay after which to requeue the key."""

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
        self._free_workers = asyncio.Semaphore(workers)
        self._keys_with_worker: set[K] = set()
        self._reconcile = reconcile
        self._shutdown_grace = shutdown_grace

    async def run(self) -> None:
        """Reconcile keys until cancelled, then wait up to `shutdown_grace` for the keys in progress."""
        in_progress: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as tasks:
            try:
                while True:
                    await self._free_workers.acquire()
                    key = await self.queue.get()
                    self._keys_with_worker.add(key)
                    task = tasks.create_task(self._process(key), name=f"{self.name}-{key}")
                    in_progress.add(task)
                    task.add_done_callback(in_progress.discard)
            finally:
                self.queue.close()
                if in_progress:
                    await asyncio.wait(in_progress, timeout=self._shutdown_grace.total_seconds())

    @property
    def busy_workers(self) -> int:
        return len(self._keys_with_worker)

    def release_worker(self, key: K) -> None:
        """Let the next key be reconciled although the reconcile of this one goes on: it waits for many writes."""
        if key in self._keys_with_worker:
            self._keys_with_worker.remove(key)
            self._free_workers.release()

    async def _process(self, key: K) -> None:
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            self.results[await self._run_reconcile(key)] += 1
            self.durations.observe(clock() - started)
        finally:
            self.queue.done(key)
            self.release_worker(key)

    async def _run_reconcile(self, key: K) -> ReconcileResult:
        try:
            requeue_after = await self._reconcile(key)
        except LeaseLost:
            raise  # stops the whole controller, not only this key
        except Conflict as error:
            self._retry_conflict(key, error)
            return ReconcileResult.CONFLICT
        except UserError as error:
            self.queue.forget(key)
            self._log_result(logging.WARNING, "reconcile rejected: user error", key, error)
            return ReconcileResult.USER_ERROR
        except RetryLater as error:
            wait = self.queue.add_rate_limited(key)
            self._log_result(logging.DEBUG, "reconcile postponed", key, error, wait)
            return ReconcileResult.WAITING
        except ApiError as error:
            wait = self.queue.add_rate_limited(key, min_delay=timedelta(seconds=error.retry_after or 0.0))
            self._log_result(logging.WARNING, "reconcile failed", key, error, wait)
            return ReconcileResult.FAILED
        except Exception:  # an unexpected error of one key must not stop the others
            wait = self.queue.add_rate_limited(key)
            extra = {"controller": self.name, "key": str(key), "retry_in": wait.total_seconds()}
            log.exception("reconcile failed", extra=extra)
            return ReconcileResult.FAILED
        self.queue.forget(key)
        if requeue_after is not None:
            self.queue.add_after(key, requeue_after)
        return ReconcileResult.DONE

    def _retry_conflict(self, key: K, error: Conflict) -> None:
        """Requeue at once after the first conflict, with backoff after further ones: the cache may lag behind."""
        is_first = self.queue.failure_count(key) == 0
        wait = self.queue.add_rate_limited(key)
        if is_first:
            self.queue.add(key)
        self._log_result(logging.DEBUG, "reconcile conflict", key, error, timedelta(0) if is_first else wait)

    def _log_result(
        self, level: int, message: str, key: K, error: Exception, retry_in: timedelta | None = None
    ) -> None:
        extra: dict[str, object] = {"controller": self.name, "key": str(key), "error": str(error)}
        if retry_in is not None:
            extra["retry_in"] = retry_in.total_seconds()
        log.log(level, message, extra=extra)
