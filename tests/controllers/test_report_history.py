"""The history of reports in the status: small, and kept when the operator is replaced."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from pliant.controllers.operator import Operator
from pliant.controllers.progress_history import MAX_HISTORY_POINTS, history_metrics, history_to_dict, with_point
from pliant.controllers.progress_reports import MAX_METRICS, STATUS_WRITE_INTERVAL_SECONDS, ProgressReceiver
from pliant.frontends.status.results import ProgressHistory, ProgressPoint
from tests.controllers.test_reports import BASE, SECRET, office
from tests.faults.rig import JOBS
from tests.virtual_time import VirtualClock, on_virtual_time

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_history_has_few_points_from_the_whole_time() -> None:
    history = ProgressHistory()
    for second in range(100_000):
        history = with_point(history, ProgressPoint(time=START + timedelta(seconds=second), step=second))
        assert len(history.points) <= MAX_HISTORY_POINTS
    times = [(point.time - START).total_seconds() for point in history.points]
    gaps = {later - earlier for earlier, later in pairwise(times)}
    assert gaps == {history.interval_seconds} == {2048}
    assert times[0] == 0
    assert times[-1] > 97_000


def test_a_pause_of_a_day_does_not_cost_the_points_before_it() -> None:
    history = ProgressHistory()
    for second in (*range(40), *range(86_400, 86_420)):
        history = with_point(history, ProgressPoint(time=START + timedelta(seconds=second)))
    assert len(history.points) == 60


@on_virtual_time
async def test_the_history_is_in_the_status_within_the_writes_there_are() -> None:
    async with office() as here:
        _, before = await here.status()
        for step in range(600):
            await here.report({"step": step, "loss": 1 / (step + 1)})
            await asyncio.sleep(0.1)
        await asyncio.sleep(STATUS_WRITE_INTERVAL_SECONDS + 1)
        progress, after = await here.status()
        assert after - before == 3
        points = progress["history"]["points"]
        assert 50 <= len(points) <= MAX_HISTORY_POINTS
        assert points[0]["step"] == 0
        assert points[-1]["metrics"] == {"loss": f"{1 / (points[-1]['step'] + 1):.6g}"}


@on_virtual_time
async def test_an_operator_that_takes_over_continues_the_history() -> None:
    async with office() as here:
        for step in range(70):
            await here.report({"step": step})
            await asyncio.sleep(1)
        (progress, before) = await here.status()
        known = progress["history"]["points"]
        here.desk = ProgressReceiver(here.client, VirtualClock(), SECRET, BASE)
        async with here.desk.write_in_background():
            for step in range(100, 140):
                await here.report({"step": step})
                await asyncio.sleep(1)
            (progress, after) = await here.status()
    assert after - before <= 3  # two writes of the new operator, and the last one of the old
    steps = [point["step"] for point in progress["history"]["points"]]
    assert len(known) > 30
    assert (steps[0], steps == sorted(steps), steps[-1] >= 128) == (0, True, True)
    assert len(steps) > 40


@on_virtual_time
async def test_a_status_of_the_leader_has_the_history_too() -> None:
    async with office() as here:
        running = asyncio.create_task(Operator(here.client, VirtualClock(), progress_receiver=here.desk).run())
        await asyncio.sleep(3)
        for step in range(10):
            await here.report({"step": step})
            await asyncio.sleep(1)
        await here.client.patch(JOBS, "default", "demo", {"spec": {"suspend": True}})
        await asyncio.sleep(2)
        progress, _ = await here.status()
        assert [point["step"] for point in progress["history"]["points"]] == list(range(10))
        await asyncio.sleep(100)
        assert (await here.status())[0] == progress
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def test_a_full_history_is_a_few_kibibytes() -> None:
    metrics = history_metrics({f"metric_{number}": "-1.23457e-05" for number in range(MAX_METRICS)})
    point = ProgressPoint(time=START, step=2**40, metrics=metrics)
    full = ProgressHistory(interval_seconds=4096, points=(point,) * MAX_HISTORY_POINTS)
    assert len(json.dumps(history_to_dict(full))) < 10 * 1024
