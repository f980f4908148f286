"""Writes of several jobs at one limit: whose turn it is, and what never waits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from pliant.errors import StaleDecision
from pliant.kube.client import KubeClient
from pliant.kube.election.elector import LeaderElector
from pliant.kube.election.lease import LeaseCandidate, LeaseTimings
from pliant.kube.resources import PODS
from pliant.kube.transport.write_flows import WriteFlow
from pliant.kube.transport.write_limiter import STALLED_SERVER_TIMEOUT_SECONDS, AdaptiveWriteLimiter
from tests.embedded.serving import serving
from tests.kube.busy_server import ROUND_TRIP, BusyServer, client_of, create, now
from tests.virtual_time import on_virtual_time, quiet


@on_virtual_time
async def test_no_write_expires_because_others_are_ahead() -> None:
    pace = AdaptiveWriteLimiter(max_limit=1)
    assert await create(client_of(BusyServer(1000), pace), 4_000) == 0
    assert now() > STALLED_SERVER_TIMEOUT_SECONDS


@on_virtual_time
async def test_a_write_of_another_flow_is_next_even_on_a_server_that_turns_writes_away() -> None:
    server, pace = BusyServer(2), AdaptiveWriteLimiter()
    client = client_of(server, pace)
    large, small = client.for_flow(WriteFlow("a", "large")), client.for_flow(WriteFlow("b", "small"))
    writes = [asyncio.create_task(large.create(PODS, "a", {})) for _ in range(1000)]
    await asyncio.sleep(3.0)
    before = len(server.accepted)
    await small.create(PODS, "b", {})
    assert len(server.refused) > 0
    assert "/namespaces/b/" in server.accepted[-1]
    assert len(server.accepted) - before <= 2 * int(pace.limit) + 2
    await asyncio.gather(*writes)


@on_virtual_time
async def test_a_write_that_is_no_longer_wanted_is_not_sent_once_its_turn_comes() -> None:
    server, pace = BusyServer(1000), AdaptiveWriteLimiter(max_limit=1)
    client, is_wanted = client_of(server, pace), True

    def check() -> None:
        if not is_wanted:
            raise StaleDecision("deleted")

    unwanted = client.for_flow(WriteFlow("a", "x"), check_current=check)
    writes = [asyncio.create_task(unwanted.create(PODS, "a", {})) for _ in range(10)]
    await asyncio.sleep(2.5 * ROUND_TRIP)
    is_wanted = False
    ends = await asyncio.gather(*writes, return_exceptions=True)
    assert [isinstance(end, StaleDecision) for end in ends] == [False] * 3 + [True] * 7
    assert len(server.accepted) == 3
    assert (pace.in_flight, pace.queued_count, pace.limit) == (0, 0, 1.0)


@on_virtual_time
async def test_a_waiter_that_gives_up_takes_no_turn_of_its_flow_along() -> None:
    server, pace = BusyServer(1000), AdaptiveWriteLimiter(max_limit=1)
    flows = [client_of(server, pace).for_flow(WriteFlow(namespace, "x")) for namespace in "ab"]
    writes = [asyncio.create_task(flow.create(PODS, "ab"[i], {})) for _ in range(3) for i, flow in enumerate(flows)]
    await quiet()
    for write in (writes[2], writes[3], writes[4]):
        write.cancel()
    await asyncio.gather(*writes, return_exceptions=True)
    assert [path.split("/")[4] for path in server.accepted] == ["a", "b", "b"]
    assert (pace.in_flight, pace.queued_count) == (0, 0)


@on_virtual_time
async def test_the_lease_is_renewed_although_thousands_of_writes_wait() -> None:
    async with serving() as served:
        candidate = LeaseCandidate(namespace="default", name="pliant", identity="me")
        epoch = datetime(2030, 1, 1, tzinfo=UTC)
        elector = LeaderElector(served.transport, candidate, LeaseTimings(), now=lambda: epoch, uptime=now)

        async def work(client: KubeClient) -> None:
            pace = AdaptiveWriteLimiter(max_limit=1)
            limited = client.with_write_limiter(pace)
            async with pace.write_slot():
                writes = [asyncio.create_task(limited.create(PODS, "default", {})) for _ in range(2000)]
                await asyncio.sleep(STALLED_SERVER_TIMEOUT_SECONDS - 1.0)
                assert elector.is_leading
                assert pace.queued_count == 2000
                for write in writes:
                    write.cancel()

        await elector.run_as_leader(work)
