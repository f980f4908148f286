"""The queue of writes: namespaces and jobs take turns, and no write is lost, repeated or starved."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.kube.transport.write_flows import (
    COST_UNIT_BYTES,
    MAX_URGENT_RUN,
    QueuedWrite,
    WriteClass,
    WriteFlow,
    WriteQueue,
    write_cost,
)

URGENT, CREATION = WriteClass.URGENT, WriteClass.CREATION
MAX_COST = 5
NAMESPACES, NAMES = "abc", "xyz"


@contextmanager
def a_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        loop.close()


def write(loop: asyncio.AbstractEventLoop, flow: str, kind: WriteClass = CREATION, cost: int = 1) -> QueuedWrite:
    return QueuedWrite(WriteFlow(*flow.split("/")), kind, loop.create_future(), 0.0, cost)


def flow_of(popped: QueuedWrite | None) -> str:
    assert popped is not None
    return "/".join(popped.flow)


def served(queue: WriteQueue, count: int) -> list[str]:
    return [flow_of(queue.pop()) for _ in range(count)]


def filled(loop: asyncio.AbstractEventLoop, **counts: int) -> WriteQueue:
    """A queue with so many creations of each namespace's only job."""
    queue = WriteQueue()
    for namespace, count in counts.items():
        for _ in range(count):
            queue.push(write(loop, f"{namespace}/x"))
    return queue


def test_one_write_of_every_other_namespace_is_ahead_of_a_new_one() -> None:
    with a_loop() as loop:
        queue = filled(loop, a=1000, b=1000)
        served(queue, 5)
        queue.push(write(loop, "c/x"))
        assert "c/x" in served(queue, 3)


def test_one_write_of_every_other_job_is_ahead_of_one_of_the_same_namespace() -> None:
    with a_loop() as loop:
        queue = filled(loop, a=1000)
        queue.push(write(loop, "a/y"))
        assert served(queue, 3) == ["a/x", "a/y", "a/x"]


def test_a_namespace_of_many_jobs_has_no_larger_share() -> None:
    with a_loop() as loop:
        queue = WriteQueue()
        for number in range(50):
            queue.push(write(loop, f"a/job-{number}"))
        for _ in range(50):
            queue.push(write(loop, "b/x"))
        assert [each[0] for each in served(queue, 20)] == ["a", "b"] * 10


def test_a_large_write_costs_the_turns_of_as_many_small_ones() -> None:
    with a_loop() as loop:
        queue = WriteQueue()
        for _ in range(4):
            queue.push(write(loop, "a/x", cost=4))
            queue.push(write(loop, "b/x"))
            queue.push(write(loop, "b/x"))
        order = "".join(each[0] for each in served(queue, 10))
        assert order == "abbbbabbbb"
        assert served(queue, 2) == ["a/x", "a/x"], "nobody else waits, so the rest has no debt to pay"
    assert [write_cost(size) for size in (0, COST_UNIT_BYTES - 1, COST_UNIT_BYTES, 3 * COST_UNIT_BYTES)] == [1, 1, 2, 4]


def test_urgent_writes_of_a_job_come_first_and_never_starve_its_creations() -> None:
    with a_loop() as loop:
        queue = WriteQueue()
        for _ in range(3):
            queue.push(write(loop, "a/x"))
        for _ in range(2 * MAX_URGENT_RUN):
            queue.push(write(loop, "a/x", URGENT))
        kinds = [popped.write_class for _ in range(len(queue)) if (popped := queue.pop())]
        assert kinds == [*[URGENT] * MAX_URGENT_RUN, CREATION] * 2 + [CREATION]


def test_urgent_writes_of_one_job_do_not_pass_another() -> None:
    with a_loop() as loop:
        queue = filled(loop, b=5)
        for _ in range(100):
            queue.push(write(loop, "a/x", URGENT))
        assert Counter(served(queue, 10)) == {"a/x": 5, "b/x": 5}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_every_write_is_served_once_in_order_unless_it_is_withdrawn(seed: int) -> None:
    chance = random.Random(seed)
    with a_loop() as loop:
        queue, waiting, order = WriteQueue(), list[QueuedWrite](), list[QueuedWrite]()
        for _ in range(chance.randint(1, 200)):
            move = chance.random()
            if move < 0.5 or not waiting:
                flow = f"{chance.choice(NAMESPACES)}/{chance.choice(NAMES)}"
                new = write(loop, flow, chance.choice(list(WriteClass)), chance.randint(1, MAX_COST))
                queue.push(new)
                waiting.append(new)
                order.append(new)
            elif move < 0.65:
                queue.withdraw(gone := waiting.pop(chance.randrange(len(waiting))))
                queue.withdraw(gone)
            else:
                popped = queue.pop()
                assert popped in waiting, "there is work, and nobody else had it"
                earlier = [each for each in waiting if order.index(each) < order.index(popped)]
                same = [each for each in earlier if (each.flow, each.write_class) == (popped.flow, popped.write_class)]
                assert not same
                waiting.remove(popped)
            assert len(queue) == len(waiting)
            assert Counter(queue) == Counter(waiting)
            for kind in WriteClass:
                assert queue.count(kind) == sum(each.write_class is kind for each in waiting)
        assert {queue.pop() for _ in range(len(waiting))} == set(waiting)
        assert queue.pop() is None


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_flows_that_always_wait_get_the_same_within_the_cost_of_one_write(seed: int) -> None:
    chance = random.Random(seed)
    flows = [f"{namespace}/{name}" for namespace in NAMESPACES for name in NAMES[: chance.randint(1, len(NAMES))]]
    with a_loop() as loop:
        queue, costs = WriteQueue(), Counter[str]()

        def refill(flow: str) -> None:
            kind = chance.choice(list(WriteClass))
            queue.push(write(loop, flow, kind, chance.choice((1, 1, 1, MAX_COST))))

        for flow in flows * 3:
            refill(flow)
        for _ in range(400):
            popped = queue.pop()
            assert popped is not None
            costs[flow_of(popped)] += popped.cost
            refill(flow_of(popped))
            spaces = [sum(cost for flow, cost in costs.items() if flow[0] == space) for space in NAMESPACES]
            assert max(spaces) - min(spaces) <= MAX_COST
        for space in NAMESPACES:
            jobs = [costs[flow] for flow in flows if flow[0] == space]
            assert max(jobs) - min(jobs) <= MAX_COST


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_no_write_waits_for_more_than_one_of_every_other_flow(seed: int) -> None:
    chance = random.Random(seed)
    with a_loop() as loop:
        queue = WriteQueue()
        flows = [f"{namespace}/{name}" for namespace in NAMESPACES for name in NAMES]
        for flow in flows:
            for _ in range(50):
                queue.push(write(loop, flow))
        served(queue, chance.randint(0, 60))
        new = write(loop, f"{chance.choice(NAMESPACES)}/new")
        queue.push(new)
        ahead = 0
        while queue.pop() is not new:
            ahead += 1
        assert ahead <= len(NAMESPACES) * (len(NAMES) + 1)
