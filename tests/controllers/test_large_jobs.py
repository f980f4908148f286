"""How the writes of a large decision are handed over, and how many large decisions there are."""

from __future__ import annotations

import asyncio

import pytest

from pliant.controllers.large_jobs import MAX_SLICES_AHEAD, MAX_WAVE_SECONDS, LargeDecisionLimiter, Wave
from pliant.errors import Forbidden, LeaseLost, StaleDecision
from pliant.kube.transport.write_flows import WriteFlow
from tests.virtual_time import on_virtual_time, quiet

SLICE = 10


class Writer:
    """Takes a second for each write."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.outstanding = self.most = 0

    async def __call__(self, item: int) -> None:
        self.outstanding += 1
        self.most = max(self.most, self.outstanding)
        try:
            await asyncio.sleep(1.0)
        finally:
            self.outstanding -= 1
        if item == 13:
            raise Forbidden(403, "Forbidden", "unlucky")
        self.written.append(item)


@on_virtual_time
async def test_a_wave_never_has_more_than_two_slices_outstanding_and_returns_what_failed() -> None:
    writer, wave = Writer(), Wave(SLICE)
    [(item, error)] = await wave.run(range(100), writer)
    assert (item, type(error), wave.is_complete) == (13, Forbidden, True)
    assert sorted(writer.written) == [each for each in range(100) if each != 13]
    assert writer.most == MAX_SLICES_AHEAD * SLICE
    assert asyncio.get_running_loop().time() == pytest.approx(100 / writer.most)


@on_virtual_time
async def test_a_wave_that_takes_too_long_leaves_the_rest() -> None:
    writer, wave = Writer(), Wave(SLICE)
    assert len(await wave.run(range(10_000), writer)) == 1
    assert not wave.is_complete
    assert (len(writer.written), writer.outstanding) == (MAX_WAVE_SECONDS * 2 * SLICE - 1, 0)
    assert await wave.run(range(5), writer) == [], "and nothing follows it"
    assert len(writer.written) == MAX_WAVE_SECONDS * 2 * SLICE - 1


@on_virtual_time
async def test_a_wave_stops_when_its_decision_is_outdated_and_says_so_once_all_writes_have_ended() -> None:
    writer = Writer()

    def check() -> None:
        if len(writer.written) >= 30:
            raise StaleDecision("edited")

    with pytest.raises(StaleDecision):
        await Wave(SLICE, check).run(range(20, 1000), writer)
    assert len(writer.written) <= 30 + 2 * SLICE
    assert writer.outstanding == 0


@on_virtual_time
async def test_a_wave_stops_when_another_operator_leads() -> None:
    writes = 0

    async def write(item: int) -> None:
        nonlocal writes
        writes += 1
        await asyncio.sleep(1.0)
        raise LeaseLost("too late")

    with pytest.raises(LeaseLost):
        await Wave(SLICE).run(range(1000), write)
    assert writes == MAX_SLICES_AHEAD * SLICE


@on_virtual_time
async def test_a_cancelled_wave_leaves_no_write_behind() -> None:
    writer = Writer()
    wave = asyncio.create_task(Wave(SLICE).run(range(100), writer))
    await asyncio.sleep(1.5)
    wave.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wave
    await asyncio.sleep(10.0)
    assert (len(writer.written), writer.outstanding) == (2 * SLICE - 1, 0)


@on_virtual_time
async def test_few_large_decisions_exist_at_a_time_and_namespaces_take_turns() -> None:
    limiter, order = LargeDecisionLimiter(2), list[str]()
    most = running = 0

    async def decide(namespace: str, job: str) -> None:
        nonlocal most, running
        async with limiter.permit(WriteFlow(namespace, job)):
            running += 1
            most = max(most, running)
            order.append(namespace)
            try:
                await asyncio.sleep(1.0)
            finally:
                running -= 1

    decisions = [asyncio.create_task(decide("a", f"job-{number}")) for number in range(20)]
    await quiet()
    decisions.append(asyncio.create_task(decide("b", "job")))
    await quiet()
    for cancelled in (decisions[0], decisions[5], decisions[6]):
        cancelled.cancel()
    await asyncio.gather(*decisions, return_exceptions=True)
    assert most == 2
    assert "b" in order[:5], "a namespace with one large job does not wait for all of another"
    assert len(order) == 19
    async with asyncio.timeout(1.0), limiter.permit(WriteFlow()), limiter.permit(WriteFlow()):
        pass
