from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise

import pytest

from pliant.errors import Conflict, InvalidSpec, LeaseLost, RetryLater, TooManyRequests
from pliant.runtime.controller import Controller, ReconcileResult
from pliant.runtime.workqueue import WorkQueue
from tests.virtual_time import on_virtual_time, passing, quiet

SECOND = timedelta(seconds=1)
Reconcile = Callable[[str], Awaitable[timedelta | None]]


@asynccontextmanager
async def running(reconcile: Reconcile, *, workers: int = 4) -> AsyncIterator[Controller[str]]:
    queue: WorkQueue[str] = WorkQueue(rng=random.Random(3))
    controller = Controller("test", reconcile, workers=workers, queue=queue)
    task = asyncio.create_task(controller.run())
    try:
        await quiet()
        yield controller
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


class Recorder:
    """Remembers when each key was looked at, and raises what it was told to, once each."""

    def __init__(self, *problems: Exception, again: timedelta | None = None) -> None:
        self.looks: list[tuple[str, float]] = []
        self.problems = list(problems)
        self.again = again

    async def __call__(self, key: str) -> timedelta | None:
        self.looks.append((key, asyncio.get_running_loop().time()))
        if key == "bad" and self.problems:
            raise self.problems.pop(0)
        again, self.again = self.again, None
        return again

    def times(self, key: str) -> list[float]:
        return [time for looked_at, time in self.looks if looked_at == key]


@on_virtual_time
async def test_every_key_is_reconciled_and_looked_at_again_when_asked() -> None:
    reconcile = Recorder(again=10 * SECOND)
    async with running(reconcile) as controller:
        controller.queue.add("a")
        await passing(60 * SECOND)
        assert reconcile.times("a") == pytest.approx([0, 10], abs=1e-3)
        assert controller.results == {ReconcileResult.DONE: 2}


@on_virtual_time
async def test_a_key_is_never_reconciled_twice_at_once() -> None:
    busy: set[str] = set()
    looks = 0

    async def reconcile(key: str) -> None:
        nonlocal looks
        assert key not in busy
        busy.add(key)
        looks += 1
        await passing(SECOND)
        busy.discard(key)

    async with running(reconcile) as controller:
        for _ in range(20):
            controller.queue.add("a")
            controller.queue.add("b")
            await passing(SECOND / 4)
        assert set(controller.results) == {ReconcileResult.DONE}
        assert looks <= 14


@on_virtual_time
async def test_workers_reconcile_different_keys_side_by_side() -> None:
    async def reconcile(key: str) -> None:
        await passing(SECOND)

    async with running(reconcile, workers=4) as controller:
        for key in "abcd":
            controller.queue.add(key)
        await passing(1.5 * SECOND)
        assert controller.results.total() == controller.durations.count == 4
        assert controller.durations.total == pytest.approx(4)
        assert controller.queue.active_count == 0


@on_virtual_time
async def test_a_key_that_gives_its_worker_back_goes_on_beside_as_many_others() -> None:
    busy = set[str]()
    busiest = list[set[str]]()

    async def reconcile(key: str) -> None:
        if key.startswith("large"):
            controller.release_worker(key)
            controller.release_worker(key)
        busy.add(key)
        busiest.append(set(busy))
        await passing(SECOND if key.startswith("small") else 60 * SECOND)
        busy.remove(key)

    async with running(reconcile, workers=2) as controller:
        for key in (*(f"large-{number}" for number in range(20)), *(f"small-{number}" for number in range(6))):
            controller.queue.add(key)
        await passing(30 * SECOND)
        controller.queue.add("large-0")
        await passing(SECOND)
        assert busy == {f"large-{number}" for number in range(20)}
        assert max(sum(key.startswith("small") for key in each) for each in busiest) == 2
        assert controller.queue.depth == 1, "nobody else works on a key meanwhile"
        await passing(120 * SECOND)
        assert controller.results == {ReconcileResult.DONE: 27}


@on_virtual_time
async def test_trouble_with_one_key_backs_off_and_touches_no_other(caplog: pytest.LogCaptureFixture) -> None:
    reconcile = Recorder(*(RuntimeError("boom") for _ in range(5)))
    async with running(reconcile, workers=1) as controller:
        controller.queue.add("bad")
        controller.queue.add("good")
        await passing(60 * SECOND)
        assert reconcile.times("good") == pytest.approx([0], abs=1e-3)
        gaps = [b - a for a, b in pairwise(reconcile.times("bad"))]
        assert len(gaps) == 5
        assert gaps == sorted(gaps)
        assert controller.results == {ReconcileResult.DONE: 2, ReconcileResult.FAILED: 5}
        assert controller.queue.failure_count("bad") == 0
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 5
    assert {record.getMessage() for record in told} == {"reconcile failed"}
    assert all(record.exc_info for record in told)


@on_virtual_time
async def test_a_conflict_is_looked_at_again_at_once_and_then_ever_later() -> None:
    reconcile = Recorder(*(Conflict(409, "Conflict", "overtaken") for _ in range(4)))
    async with running(reconcile) as controller:
        controller.queue.add("bad")
        await passing(60 * SECOND)
        times = reconcile.times("bad")
        assert len(times) == 5
        assert times[1] == times[0]
        assert all(later - earlier > 0.01 for earlier, later in pairwise(times[1:]))
        assert controller.results == {ReconcileResult.CONFLICT: 4, ReconcileResult.DONE: 1}


@on_virtual_time
async def test_not_yet_backs_off_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    reconcile = Recorder(RetryLater("no address yet"))
    with caplog.at_level(logging.DEBUG):
        async with running(reconcile) as controller:
            controller.queue.add("bad")
            await passing(SECOND)
            assert len(reconcile.times("bad")) == 2
            assert controller.results == {ReconcileResult.WAITING: 1, ReconcileResult.DONE: 1}
    told = [record for record in caplog.records if record.name == "pliant.runtime.controller"]
    assert [record.getMessage() for record in told] == ["reconcile postponed"]
    assert not told[0].exc_info


@on_virtual_time
async def test_what_a_user_must_mend_is_not_tried_again() -> None:
    reconcile = Recorder(InvalidSpec("spec.x", "is wrong"))
    async with running(reconcile) as controller:
        controller.queue.add("bad")
        await passing(600 * SECOND)
        assert len(reconcile.times("bad")) == 1
        assert controller.results == {ReconcileResult.USER_ERROR: 1}


@on_virtual_time
async def test_a_server_that_asks_for_patience_gets_it() -> None:
    problem = TooManyRequests(429, "TooManyRequests", "slow down")
    problem.retry_after = 30.0
    reconcile = Recorder(problem)
    async with running(reconcile) as controller:
        controller.queue.add("bad")
        await passing(60 * SECOND)
        assert reconcile.times("bad") == pytest.approx([0, 30], abs=1e-3)


@on_virtual_time
async def test_a_lost_lease_ends_all_work_at_once() -> None:
    others: list[str] = []

    async def reconcile(key: str) -> None:
        if key == "bad":
            raise LeaseLost("somebody else may be leading")
        others.append(key)
        await asyncio.Event().wait()

    controller = Controller("test", reconcile, workers=2)
    for key in ("good", "bad", "later"):
        controller.queue.add(key)
    with pytest.raises(ExceptionGroup) as ended:
        await controller.run()
    assert ended.group_contains(LeaseLost)
    assert others == ["good"]


@on_virtual_time
async def test_work_under_way_is_finished_when_cancelled_and_nothing_new_is_begun() -> None:
    finished: list[str] = []

    async def reconcile(key: str) -> None:
        await passing(SECOND)
        finished.append(key)

    async with running(reconcile, workers=1) as controller:
        controller.queue.add("a")
        controller.queue.add("b")
        await quiet()
    assert finished == ["a"]


@on_virtual_time
async def test_work_that_does_not_finish_in_the_grace_period_is_cancelled() -> None:
    async def reconcile(key: str) -> None:
        await asyncio.Event().wait()

    async with running(reconcile) as controller:
        controller.queue.add("a")
        await quiet()
    assert asyncio.get_running_loop().time() == pytest.approx(5, abs=1e-3)
