"""Who leads depends on no time of day, and a leader that slept asks for nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.kube.test_lease import LEASE, a_site, candidate, end_of, now
from tests.virtual_time import VirtualClock, on_virtual_time, passing, quiet


@pytest.mark.parametrize("hours", [2, -2, 48, -48])
@on_virtual_time
async def test_a_leader_leads_on_whatever_the_time_of_day(hours: int) -> None:
    async with a_site() as site:
        first, second = site.machine("first"), site.machine("second")
        tasks = [candidate(first)]
        await quiet()
        tasks.append(candidate(second))
        await passing(timedelta(seconds=30))
        VirtualClock().jump_wall(timedelta(hours=hours))
        await passing(timedelta(minutes=5))
        assert site.leads == [(0, "first")]
        assert max(site.marks(first)) > now() - 1
        await end_of(*tasks)


@pytest.mark.parametrize("slept", [timedelta(seconds=16), timedelta(hours=2), timedelta(days=2)])
@on_virtual_time
async def test_a_leader_that_slept_asks_for_nothing_and_the_other_follows_it(slept: timedelta) -> None:
    async with a_site() as site:
        first, second = site.machine("first"), site.machine("second")
        tasks = [candidate(first)]
        await quiet()
        tasks.append(candidate(second))
        await passing(timedelta(seconds=30))
        VirtualClock().suspend(slept)
        woke_up = now()
        await passing(timedelta(seconds=LEASE * 1.1))
        assert site.leader == "second"
        assert max(site.marks(first)) <= woke_up
        await end_of(*tasks)
