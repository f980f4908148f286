"""Reports beside an operator at work: each writes its own part of the status."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from pliant.controllers.operator import Operator
from tests.controllers.test_reports import office
from tests.faults.rig import JOBS
from tests.virtual_time import VirtualClock, on_virtual_time


@on_virtual_time
async def test_what_members_reported_outlives_every_status_and_rides_along_with_it() -> None:
    async with office() as here:
        running = asyncio.create_task(Operator(here.client, VirtualClock(), progress_receiver=here.desk).run())
        await asyncio.sleep(3)
        await here.report({"step": 1})
        await asyncio.sleep(1)
        await here.report({"step": 2})
        suspend = {"spec": {"suspend": True}}
        await here.client.patch(JOBS, "default", "demo", suspend)
        await asyncio.sleep(1)
        found = await here.client.get(JOBS, "default", "demo")
        assert found["status"]["phase"] == "Suspended"
        assert found["status"]["progress"]["step"] == 2  # thirty seconds are not over: no write of its own
        await here.client.patch(JOBS, "default", "demo", {"spec": {"suspend": False}})
        await asyncio.sleep(100)
        found = await here.client.get(JOBS, "default", "demo")
        assert found["status"]["progress"]["step"] == 2
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
