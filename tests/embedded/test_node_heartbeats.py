"""A node is given up only if its agent was silent for long, and not because the monitor itself was stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pliant.embedded.controllers.node_lifecycle import NodeLifecycleController
from tests.virtual_time import VirtualClock, on_virtual_time


class Agent:
    """An agent that answers, is silent, or is gone."""

    def __init__(self) -> None:
        self.is_silent = False
        self.is_lost = False

    async def is_responsive(self, timeout: float) -> bool:
        if self.is_silent:
            await asyncio.sleep(timeout)
        return not (self.is_silent or self.is_lost)


class Monitor(NodeLifecycleController):
    """Keeps what would be written."""

    def __init__(self, agent: Agent) -> None:
        services = SimpleNamespace(agent=agent, clock=VirtualClock())
        super().__init__(cast("Any", services), cast("Any", None), {"node-0": {}, "node-1": {}}, lambda: ())
        self.written: list[tuple[str, bool, float]] = []

    async def _write_ready_condition(self, node_name: str, *, is_reachable: bool) -> None:
        self.written.append((node_name, is_reachable, asyncio.get_running_loop().time()))

    async def _sync_pod_readiness(self, node_name: str, *, is_reachable: bool) -> None: ...


@asynccontextmanager
async def monitored() -> AsyncIterator[tuple[Agent, Monitor]]:
    agent = Agent()
    monitor = Monitor(agent)
    task = asyncio.create_task(monitor.run())
    try:
        await asyncio.sleep(60)
        yield agent, monitor
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@on_virtual_time
async def test_an_agent_that_is_silent_for_half_a_minute_loses_no_node() -> None:
    async with monitored() as (agent, monitor):
        agent.is_silent = True
        await asyncio.sleep(35)
        agent.is_silent = False
        await asyncio.sleep(60)
        assert monitor.written == []


@on_virtual_time
async def test_an_agent_that_stays_silent_loses_its_nodes_after_forty_seconds() -> None:
    async with monitored() as (agent, monitor):
        agent.is_silent, since = True, asyncio.get_running_loop().time()
        await asyncio.sleep(60)
        assert [name for name, is_reachable, _ in monitor.written if not is_reachable] == ["node-0", "node-1"]
        assert all(36 <= at - since <= 46 for _, _, at in monitor.written)
        agent.is_silent = False
        await asyncio.sleep(10)
        assert [name for name, is_reachable, _ in monitor.written if is_reachable] == ["node-0", "node-1"]


@on_virtual_time
async def test_an_agent_that_is_gone_loses_its_nodes_at_once() -> None:
    async with monitored() as (agent, monitor):
        agent.is_lost, since = True, asyncio.get_running_loop().time()
        await asyncio.sleep(10)
        assert [at - since <= 7 for _, _, at in monitor.written] == [True, True]


@pytest.mark.parametrize("pause", [30, 300, 7200])
@on_virtual_time
async def test_time_in_which_the_monitor_was_stopped_does_not_count(pause: int) -> None:
    async with monitored() as (agent, monitor):
        agent.is_silent = True
        await asyncio.sleep(20)
        stop_loop(pause)
        await asyncio.sleep(6)
        assert monitor.written == []
        agent.is_silent = False
        await asyncio.sleep(60)
        assert monitor.written == []


@on_virtual_time
async def test_sleep_of_the_machine_does_not_count() -> None:
    async with monitored() as (_, monitor):
        VirtualClock().suspend(timedelta(hours=2))
        VirtualClock().jump_wall(-timedelta(days=2))
        await asyncio.sleep(60)
        assert monitor.written == []


def stop_loop(seconds: float) -> None:
    """Let time pass in which nothing runs, as if this process were stopped."""
    loop: Any = asyncio.get_running_loop()
    loop._jumping.now += seconds
