from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests import virtual_time
from tests.virtual_time import EPOCH, Deadlock, TooLong, VirtualClock, on_virtual_time, passing


@on_virtual_time
async def test_hours_pass_at_once_and_the_clock_shows_them() -> None:
    await passing(timedelta(hours=3))
    assert VirtualClock().now() == EPOCH + timedelta(hours=3)


@on_virtual_time
async def test_timers_ring_in_order_and_on_time() -> None:
    rung: list[tuple[str, float]] = []
    loop = asyncio.get_running_loop()

    def ring(name: str) -> None:
        rung.append((name, round(loop.time(), 6)))

    for name, delay in (("late", 0.3), ("early", 0.1), ("middle", 0.2)):
        loop.call_later(delay, ring, name)
    await passing(timedelta(seconds=1))
    assert rung == [("early", 0.1), ("middle", 0.2), ("late", 0.3)]


def test_waiting_for_what_never_comes_is_a_deadlock() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        virtual_time.run(main())


def test_ticking_for_ever_is_too_long() -> None:
    async def main() -> None:
        while True:
            await passing(timedelta(hours=1))

    with pytest.raises(TooLong):
        virtual_time.run(main(), limit=timedelta(days=1))


@pytest.mark.parametrize("answer", [1, 2])
@on_virtual_time
async def test_parameters_reach_the_scenario(answer: int) -> None:
    assert answer in (1, 2)
