from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.runtime.backoff import Backoff
from pliant.runtime.queue import QueueClosed, WorkQueue
from tests import virtual_time
from tests.virtual_time import on_virtual_time, passing, quiet

SECOND = timedelta(seconds=1)


async def taken(queue: WorkQueue[str]) -> list[str]:
    """Everything that can be had now."""
    keys = []
    while True:
        try:
            async with asyncio.timeout(1e-6):
                keys.append(await queue.get())
        except TimeoutError:
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
    queue: WorkQueue[str] = WorkQueue(backoff=Backoff(first=SECOND, longest=10 * SECOND), chance=random.Random(7))
    waits = []
    for _ in range(7):
        waits.append(queue.add_failed("a").total_seconds())
        await queue.get()
        queue.done("a")
    for wait, full in zip(waits, (1, 2, 4, 8, 10, 10, 10), strict=True):
        assert full / 2 <= wait <= full
    assert len(set(waits)) == len(waits)
    assert queue.failures("a") == 7
    queue.forget("a")
    assert queue.add_failed("a") <= SECOND


@on_virtual_time
async def test_back_off_of_one_key_is_not_that_of_another() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff=Backoff(first=SECOND))
    for _ in range(5):
        queue.add_failed("a")
    assert queue.add_failed("b") <= SECOND
    assert queue.add_failed("c", at_least=30 * SECOND) == 30 * SECOND


def test_back_off_never_overflows() -> None:
    assert Backoff().wait(10_000, random.Random(0)) <= timedelta(minutes=1)


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


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "after", "failed", "get", "done", "wait"]), st.sampled_from("ab")),
    max_size=50,
)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_every_key_added_is_looked_at_later_and_never_twice_at_once(steps: list[tuple[str, str]]) -> None:
    virtual_time.run(_live_through(steps))


async def _live_through(steps: list[tuple[str, str]]) -> None:
    queue: WorkQueue[str] = WorkQueue(chance=random.Random(0))
    owed: set[str] = set()
    active: set[str] = set()

    async def take() -> None:
        for key in await taken(queue):
            assert key not in active
            active.add(key)
            owed.discard(key)

    for step, key in steps:
        if step in ("add", "after", "failed"):
            owed.add(key)
        match step:
            case "add":
                queue.add(key)
            case "after":
                queue.add_after(key, SECOND)
            case "failed":
                queue.add_failed(key)
            case "get":
                await take()
            case "done" if key in active:
                active.discard(key)
                queue.done(key)
            case "wait":
                await passing(SECOND)
    for key in sorted(active):
        active.discard(key)
        queue.done(key)
    await passing(timedelta(minutes=2))
    await take()
    assert not owed
    assert len(queue) == 0
