from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Hashable
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pliant.model.job import JobKey
from pliant.runtime.workqueue import Backoff, QueueClosed, WorkQueue
from tests import virtual_time
from tests.virtual_time import on_virtual_time, passing, quiet

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
SECOND = timedelta(seconds=1)


async def taken(queue: WorkQueue[K], most: int = 1000) -> list[K]:
    """Everything that can be had now."""
    keys: list[K] = []
    with suppress(TimeoutError):
        while len(keys) < most:
            async with asyncio.timeout(1e-6):
                keys.append(await queue.get())
    return keys


@on_virtual_time
async def test_a_key_added_often_is_handed_out_once_in_order() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abacb":
        queue.add(key)
    assert len(queue) == 3
    assert await taken(queue) == ["a", "b", "c"]


@on_virtual_time
async def test_a_key_at_work_is_handed_out_again_only_after_it_is_done() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert await taken(queue) == []
    queue.done("a")
    assert await taken(queue) == ["a"]
    queue.done("a")
    assert await taken(queue) == []


@on_virtual_time
async def test_a_delayed_key_comes_on_time() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 10 * SECOND)
    queue.add_after("now", timedelta(0))
    assert await taken(queue) == ["now"]
    assert await queue.get() == "a"
    assert asyncio.get_running_loop().time() == pytest.approx(10)


@pytest.mark.parametrize("delays", [(10, 3), (3, 10)])
@on_virtual_time
async def test_of_two_delays_the_earlier_wins(delays: tuple[int, int]) -> None:
    queue: WorkQueue[str] = WorkQueue()
    for delay in delays:
        queue.add_after("a", delay * SECOND)
    assert len(queue) == 1
    assert await queue.get() == "a"
    assert asyncio.get_running_loop().time() == pytest.approx(3)
    queue.done("a")
    await passing(20 * SECOND)
    assert await taken(queue) == []


@on_virtual_time
async def test_an_immediate_look_replaces_a_later_one() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 10 * SECOND)
    queue.add("a")
    queue.add_after("a", 5 * SECOND)
    assert await taken(queue) == ["a"]
    queue.done("a")
    await passing(20 * SECOND)
    assert await taken(queue) == []


@on_virtual_time
async def test_a_timer_that_rings_during_the_work_waits_for_its_end() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add_after("a", SECOND)
    await passing(5 * SECOND)
    assert await taken(queue) == []
    queue.done("a")
    assert await taken(queue) == ["a"]


@on_virtual_time
async def test_back_off_doubles_up_to_its_cap_and_starts_over_when_forgotten() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff=Backoff(initial=SECOND, maximum=10 * SECOND), rng=random.Random(7))
    waits = []
    for _ in range(7):
        waits.append(queue.add_rate_limited("a").total_seconds())
        await queue.get()
        queue.done("a")
    for wait, full in zip(waits, (1, 2, 4, 8, 10, 10, 10), strict=True):
        assert full / 2 <= wait <= full
    assert len(set(waits)) == len(waits)
    assert queue.failure_count("a") == 7
    queue.forget("a")
    assert queue.add_rate_limited("a") <= SECOND


@on_virtual_time
async def test_back_off_of_one_key_is_not_that_of_another() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff=Backoff(initial=SECOND))
    for _ in range(5):
        queue.add_rate_limited("a")
    assert queue.add_rate_limited("b") <= SECOND
    assert queue.add_rate_limited("c", min_delay=30 * SECOND) == 30 * SECOND


def test_back_off_never_overflows() -> None:
    assert Backoff().delay(10_000, random.Random(0)) <= timedelta(minutes=1)


@on_virtual_time
async def test_a_held_key_is_handed_out_when_its_time_is_over_and_others_at_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.hold("a", SECOND)
    queue.add("a")
    queue.done("a")
    queue.add("b")
    assert await taken(queue) == ["b"]
    assert await queue.get() == "a"
    assert asyncio.get_running_loop().time() == pytest.approx(1.0, abs=1e-3)
    queue.done("a")
    queue.hold("a", SECOND)
    queue.hold("a", 5 * SECOND)
    await passing(6 * SECOND)
    queue.add("a")
    assert await taken(queue) == ["a"], "the time is over"


@on_virtual_time
async def test_closing_wakes_everybody_and_drops_timers() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    queue.add_after("a", SECOND)
    await quiet()
    queue.close()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(answer, QueueClosed) for answer in answers)
    queue.add("b")
    assert len(queue) == 0


@on_virtual_time
async def test_a_getter_that_gives_up_takes_no_key_with_it() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await quiet()
    queue.add("a")
    first.cancel()
    assert await second == "a"


@on_virtual_time
async def test_whoever_adds_a_thousand_keys_delays_nobody_else_by_more_than_one() -> None:
    queue: WorkQueue[JobKey] = WorkQueue()
    for number in range(1000):
        queue.add(JobKey("crowd", f"{number}"))
    for number in range(3):
        queue.add(JobKey("a", f"{number}"))
        queue.add(JobKey("b", f"{number}"))
    order = [(await queue.get()) for _ in range(10)]
    assert [key.namespace for key in order] == [*("crowd", "a", "b") * 3, "crowd"]
    assert [key.name for key in order if key.namespace == "crowd"] == ["0", "1", "2", "3"]


@on_virtual_time
async def test_lanes_can_be_anything() -> None:
    queue: WorkQueue[str] = WorkQueue(lane_of=lambda key: key[0])
    for key in ("a1", "a2", "a3", "b1"):
        queue.add(key)
    assert [await queue.get() for _ in range(4)] == ["a1", "b1", "a2", "a3"]


@on_virtual_time
async def test_the_time_a_key_waits_for_a_worker_is_measured() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 10 * SECOND)
    await passing(13 * SECOND)
    assert queue.depth == 1
    await queue.get()
    assert (queue.depth, queue.active_count) == (0, 1)
    assert queue.wait_durations.total == pytest.approx(3)


KEYS = [JobKey(namespace, name) for namespace in "xyz" for name in "abc"]


class Model(RuleBasedStateMachine):
    """A queue beside what it promises: no key lost, none handed out twice at once, lanes in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=virtual_time.VirtualLoop)
        self.queue: WorkQueue[JobKey] = self.do(self.made())
        self.owed: set[JobKey] = set()
        """Added since they were last handed out."""
        self.active: set[JobKey] = set()
        self.passed_over: dict[str, list[str]] = {}
        """For each lane with a ready key: which lanes were served since it last was, or became ready."""

    async def made(self) -> WorkQueue[JobKey]:
        return WorkQueue(rng=random.Random(0))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @rule(key=st.sampled_from(KEYS), how=st.sampled_from(["add", "after", "failed"]))
    def add(self, key: JobKey, how: str) -> None:
        async def act() -> None:
            match how:
                case "add":
                    self.queue.add(key)
                case "after":
                    self.queue.add_after(key, SECOND)
                case _:
                    self.queue.add_rate_limited(key)

        self.do(act())
        self.owed.add(key)

    @rule(often=st.integers(1, 9))
    def get(self, often: int) -> None:
        for _ in range(often):
            self.get_one()

    def get_one(self) -> None:
        for key in self.do(taken(self.queue, 1)):
            assert key not in self.active
            assert key in self.owed
            for lane, served in self.passed_over.items():
                if lane != key.namespace:
                    assert key.namespace not in served, f"{lane} was passed over twice"
                    served.append(key.namespace)
            self.passed_over.pop(key.namespace, None)
            self.active.add(key)
            self.owed.discard(key)
        self.every_key_owed_is_kept()

    @precondition(lambda self: self.active)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.active)))
        self.active.discard(key)

        async def act() -> None:
            self.queue.done(key)

        self.do(act())

    @rule()
    def wait(self) -> None:
        self.do(passing(SECOND))

    @invariant()
    def every_key_owed_is_kept(self) -> None:
        for lane in self.queue._lanes:
            self.passed_over.setdefault(lane, [])
        kept = self.queue._waiting | set(self.queue._timers)
        assert kept == self.owed
        ready = {key for lane in self.queue._lanes.values() for key, _ in lane}
        assert ready == self.queue._waiting - self.active
        assert sorted(self.queue._lane_order) == sorted(self.queue._lanes)

    def teardown(self) -> None:
        self.runner.close()


TestQueueKeepsItsPromises = Model.TestCase
TestQueueKeepsItsPromises.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
