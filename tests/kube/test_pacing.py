"""Writes keep the pace of a server that turns away what is too much for it."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.errors import ServerError, TooManyRequests, Unreachable
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS, PODS
from pliant.kube.transport.write_flows import WriteFlow
from pliant.kube.transport.write_limiter import (
    INITIAL_WRITES_IN_FLIGHT,
    MAX_WRITES_IN_FLIGHT,
    STALLED_SERVER_TIMEOUT_SECONDS,
    AdaptiveWriteLimiter,
)
from tests.depth import sample
from tests.kube.busy_server import ROUND_TRIP, BusyServer, client_of, create, now
from tests.virtual_time import on_virtual_time, quiet, run


@on_virtual_time
async def test_a_willing_server_gets_as_much_as_the_ceiling_allows() -> None:
    server, pace = BusyServer(1000), AdaptiveWriteLimiter()
    assert await create(client_of(server, pace), 640) == 0
    assert server.busiest == MAX_WRITES_IN_FLIGHT
    assert now() == pytest.approx(13 * ROUND_TRIP), "three rounds to find out, and ten"
    assert (pace.limit, pace.in_flight, pace.queued_count, pace.throttled_count) == (MAX_WRITES_IN_FLIGHT, 0, 0, 0)


@on_virtual_time
async def test_a_higher_ceiling_is_approached_and_a_lower_one_kept() -> None:
    server, pace = BusyServer(1000), AdaptiveWriteLimiter(max_limit=128)
    assert await create(client_of(server, pace), 20_000) == 0
    assert server.busiest == pace.limit == 128
    server, pace = BusyServer(1000), AdaptiveWriteLimiter(max_limit=3)
    assert await create(client_of(server, pace), 100) == 0
    assert server.busiest == 3


@pytest.mark.parametrize("room", sample((1, 2, 5, 20, 50), 2, "room of servers"))
def test_the_limit_comes_to_what_the_server_takes(room: int) -> None:
    async def scenario() -> None:
        server, pace = BusyServer(room), AdaptiveWriteLimiter()
        client = client_of(server, pace)
        seconds = 20
        writes = int(seconds * room / ROUND_TRIP)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(MAX_WRITES_IN_FLIGHT * 2):
                tasks.create_task(_writer(client, writes // (MAX_WRITES_IN_FLIGHT * 2)))
        # The first rounds find out; later about one write a second asks whether there is more room.
        early = sum(moment < 1.0 for moment in server.refused)
        assert early <= max(INITIAL_WRITES_IN_FLIGHT, room)
        assert len(server.refused) - early <= 3 * now()
        assert writes * ROUND_TRIP / room / now() > 0.8, f"{now()}s for {seconds}s of work"
        assert room / 2 <= pace.limit <= room + 1

    run(scenario())


async def _writer(client: KubeClient, count: int) -> None:
    for _ in range(count):
        await client.create(CONFIG_MAPS, "default", {})


@on_virtual_time
async def test_what_is_turned_away_is_written_in_the_end_and_nothing_starves() -> None:
    server, pace = BusyServer(4), AdaptiveWriteLimiter()
    assert await create(client_of(server, pace), 2000) == 0
    assert len(server.accepted) == 2000
    assert now() < 1.5 * 2000 / 4 * ROUND_TRIP
    assert len(server.refused) == pace.throttled_count < 30


@on_virtual_time
async def test_a_fixed_limit_is_turned_away_more_often_and_gives_some_writes_up() -> None:
    server, slots = BusyServer(4), asyncio.Semaphore(MAX_WRITES_IN_FLIGHT)
    client = client_of(server, None)

    async def one() -> None:
        async with slots:
            await client.create(PODS, "default", {})

    ends = await asyncio.gather(*(one() for _ in range(2000)), return_exceptions=True)
    assert len(server.refused) > 300
    assert sum(isinstance(end, TooManyRequests) for end in ends) > 30, "some are turned away four times"


@on_virtual_time
async def test_a_server_that_takes_nothing_is_asked_once_in_every_wait() -> None:
    server, pace = BusyServer(0), AdaptiveWriteLimiter()
    writing = asyncio.create_task(create(client_of(server, pace), 200))
    await asyncio.sleep(20.5)
    assert INITIAL_WRITES_IN_FLIGHT + 10 < len(server.refused) <= INITIAL_WRITES_IN_FLIGHT + 21
    server.room = 1000
    await asyncio.sleep(2.0)
    assert pace.in_flight == pace.queued_count == 0
    assert await writing <= 20, "only those that asked in vain have given up"


@on_virtual_time
async def test_a_server_that_stays_away_is_given_up_in_time() -> None:
    pace = AdaptiveWriteLimiter()
    assert await create(client_of(BusyServer(0), pace), 200) == 200
    assert now() < 2 * STALLED_SERVER_TIMEOUT_SECONDS + 15.0
    assert pace.in_flight == pace.queued_count == 0


@on_virtual_time
async def test_a_wait_for_a_turn_ends_however_late_it_began() -> None:
    pace = AdaptiveWriteLimiter(max_limit=1)
    client = client_of(BusyServer(1000), pace)

    async def wait() -> float:
        with pytest.raises(TooManyRequests, match="the server accepted no write for 30s"):
            await client.create(PODS, "default", {})
        return now()

    async with pace.write_slot():
        waits = [asyncio.create_task(wait())]
        await asyncio.sleep(20.0)
        waits.append(asyncio.create_task(wait()))
        assert await asyncio.gather(*waits) == pytest.approx(
            [STALLED_SERVER_TIMEOUT_SECONDS, 20.0 + STALLED_SERVER_TIMEOUT_SECONDS]
        )
    await client.create(PODS, "default", {})
    assert (pace.in_flight, pace.queued_count) == (0, 0)


@on_virtual_time
async def test_the_wait_that_is_asked_for_is_kept() -> None:
    server, pace = BusyServer(0, retry_after="7"), AdaptiveWriteLimiter(max_limit=1)
    with pytest.raises(TooManyRequests):
        await client_of(server, pace).create(PODS, "default", {})
    assert len(server.refused) == 2
    assert server.refused[1] - server.refused[0] >= 7.0


@on_virtual_time
async def test_an_unavailable_server_that_names_a_time_is_spared_and_a_broken_one_is_not() -> None:
    pace = AdaptiveWriteLimiter()
    with pytest.raises(ServerError):
        await client_of(BusyServer(0, status=503), pace).create(PODS, "default", {})
    assert (pace.throttled_count, pace.limit) == (1, 1.0)
    pace = AdaptiveWriteLimiter()
    with pytest.raises(ServerError):
        await client_of(BusyServer(0, status=500), pace).create(PODS, "default", {})
    assert (pace.throttled_count, pace.limit) == (0, INITIAL_WRITES_IN_FLIGHT)


@on_virtual_time
async def test_an_answer_about_the_object_says_nothing_about_the_load() -> None:
    pace = AdaptiveWriteLimiter()
    with pytest.raises(TooManyRequests):
        await client_of(BusyServer(0, retry_after=""), pace).create(PODS, "default", {})
    assert (pace.throttled_count, pace.limit) == (0, INITIAL_WRITES_IN_FLIGHT)


@on_virtual_time
async def test_no_answer_teaches_nothing() -> None:
    pace = AdaptiveWriteLimiter()
    with pytest.raises(Unreachable):
        async with pace.write_slot():
            raise Unreachable("gone")
    assert (pace.limit, pace.in_flight) == (INITIAL_WRITES_IN_FLIGHT, 0)


@on_virtual_time
async def test_reads_wait_for_nobody() -> None:
    server, pace = BusyServer(1), AdaptiveWriteLimiter(max_limit=1)
    client = client_of(server, pace)
    async with pace.write_slot():
        await client.get(PODS, "default", "a")
    assert now() == pytest.approx(ROUND_TRIP)


@on_virtual_time
async def test_a_status_passes_those_that_wait() -> None:
    server, pace = BusyServer(1000), AdaptiveWriteLimiter(max_limit=1)
    client = client_of(server, pace)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(6):
            tasks.create_task(client.create(PODS, "default", {}))
        await quiet()
        for name in "abc":
            tasks.create_task(client.patch(PODS, "default", name, {}, subresource="status"))
    ends = [path.rpartition("/")[2] for path in server.accepted]
    assert ends == ["pods", "status", "status", "status", "pods", "pods", "pods", "pods", "pods"]


@on_virtual_time
async def test_whoever_gives_up_takes_no_turn_along() -> None:
    pace = AdaptiveWriteLimiter(max_limit=1)
    client = client_of(BusyServer(1000), pace)
    writes = [asyncio.create_task(client.create(PODS, "default", {})) for _ in range(5)]
    await quiet()
    for write in (writes[0], writes[2]):
        write.cancel()
    await asyncio.gather(*writes, return_exceptions=True)
    assert [write.cancelled() for write in writes] == [True, False, True, False, False]
    assert (pace.in_flight, pace.queued_count) == (0, 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_turns_are_never_lost_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)

    async def scenario() -> None:
        server, pace = BusyServer(chance.randint(0, 10)), AdaptiveWriteLimiter(max_limit=chance.randint(1, 20))
        client = client_of(server, pace)
        writes = []
        for _ in range(chance.randint(1, 100)):
            flow = client.for_flow(WriteFlow(chance.choice("ab"), chance.choice("xy")))
            writes.append(asyncio.create_task(flow.create(PODS, "default", {})))
            await asyncio.sleep(chance.choice((0.0, 0.0, ROUND_TRIP / 2, ROUND_TRIP)))
            if chance.random() < 0.3:
                chance.choice(writes).cancel()
            if chance.random() < 0.05:
                server.room = chance.randint(0, 10)
            assert server.busy <= pace.in_flight <= pace.max_limit
        server.room = 1000
        await asyncio.gather(*writes, return_exceptions=True)
        assert (pace.in_flight, pace.queued_count) == (0, 0)
        await create(client, 1)

    run(scenario())
