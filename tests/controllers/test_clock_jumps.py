"""Jobs of every family are neither ended nor kept for ever when the clock of the operator jumps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pliant.errors import NotFound
from pliant.frontends import FRONTENDS
from pliant.frontends.frontend import Frontend
from pliant.kube.resources import Resource
from tests.controllers.operated import operated
from tests.virtual_time import VirtualClock, on_virtual_time

HOURS, DAYS = timedelta(hours=2), timedelta(days=2)
JUMPS: dict[str, Callable[[VirtualClock], None]] = {
    **{f"{jump.total_seconds() / 3600:+.0f} h": partial(VirtualClock.jump_wall, by=jump) for jump in (HOURS, -HOURS)},
    **{f"{jump.total_seconds() / 3600:+.0f} h": partial(VirtualClock.jump_wall, by=jump) for jump in (DAYS, -DAYS)},
    "sleep": partial(VirtualClock.suspend, duration=HOURS),
}
LOOK_AGAIN = {"metadata": {"labels": {"looked": "again"}}}
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "none", "command": ["true"]}]}}
GROUP = {"replicas": 1, "template": TEMPLATE}
LIMITED: dict[str, dict[str, Any]] = {
    "AITrainingJob": {"replicaSpecs": {"worker": GROUP}, "startLimit": 600, "ttlSecondsAfterFinished": 600},
    **{
        kind: {field: {"Worker": GROUP}, "runPolicy": {"activeDeadlineSeconds": 600, "ttlSecondsAfterFinished": 600}}
        for kind, field in (("PyTorchJob", "pytorchReplicaSpecs"), ("TFJob", "tfReplicaSpecs"))
    },
}


def frontend_of(kind: str) -> Frontend:
    return next(each for each in FRONTENDS.values() if each.kind == kind)


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("kind", LIMITED)
@on_virtual_time
async def test_a_limit_and_a_ttl_last_as_long_as_they_say(kind: str, jump: str) -> None:
    frontend = frontend_of(kind)
    jobs = Resource(frontend.group, frontend.version, frontend.plural, frontend.kind)
    body = {"apiVersion": jobs.api_version, "kind": kind, "metadata": {"name": "demo"}, "spec": LIMITED[kind]}
    async with operated(frontend) as client:
        await client.create(jobs, "default", body)
        await asyncio.sleep(300)
        JUMPS[jump](VirtualClock())
        await client.patch(jobs, "default", "demo", LOOK_AGAIN)
        await asyncio.sleep(290)
        state = (await client.get(jobs, "default", "demo"))["status"]["pliant"]
        assert state["phase"] == "Pending"
        await asyncio.sleep(60)
        state = (await client.get(jobs, "default", "demo"))["status"]["pliant"]
        assert state["phase"] == "Timeout"
        JUMPS[jump](VirtualClock())
        await client.patch(jobs, "default", "demo", LOOK_AGAIN)
        await asyncio.sleep(500)
        assert await client.get(jobs, "default", "demo")
        await asyncio.sleep(120)
        with pytest.raises(NotFound):
            await client.get(jobs, "default", "demo")


@pytest.mark.parametrize("jump", JUMPS)
@on_virtual_time
async def test_a_size_that_a_user_sets_after_a_jump_is_the_latest(jump: str) -> None:
    frontend = frontend_of("AITrainingJob")
    jobs = Resource(frontend.group, frontend.version, frontend.plural, frontend.kind)
    group = {**GROUP, "minReplicas": 1, "maxReplicas": 4, "edlPolicy": "Manual"}
    spec = {"replicaSpecs": {"worker": group}}
    body = {"apiVersion": jobs.api_version, "kind": jobs.kind, "metadata": {"name": "demo"}, "spec": spec}
    async with operated(frontend) as client:
        await client.create(jobs, "default", body)
        await asyncio.sleep(5)
        await client.patch(jobs, "default", "demo", {"spec": {"elastic": {"replicas": 4}}})
        await asyncio.sleep(5)
        JUMPS[jump](VirtualClock())
        await client.patch(jobs, "default", "demo", {"spec": {"replicaSpecs": {"worker": {"replicas": 2}}}})
        await asyncio.sleep(5)
        state = (await client.get(jobs, "default", "demo"))["status"]["pliant"]
        assert state["groups"]["worker"]["appliedSize"] == 2
