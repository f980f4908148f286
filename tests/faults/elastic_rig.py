"""A job with a master whose plans are carried out by operators that die, compared with one that does not."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frontends.elasticjob.job import ElasticJobFrontend
from pliant.frontends.frontend import required_crds
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, SERVICES
from pliant.kube.transport.base import Transport
from pliant.model.operator_config import OperatorConfig
from tests import virtual_time
from tests.builders import KEY_SECRET
from tests.controllers.elastic import SPACE, Stage
from tests.faults.rig import Ledger
from tests.faults.seam import Faulty, Mortal
from tests.faults.stand_in_node import Script, StandInNodes

KIND = ElasticJobFrontend()
DEFINITIONS = required_crds(KIND)
LONG_ENOUGH = 150.0
BRIEF = OperatorConfig(node_grace_period=timedelta(seconds=2), plan_history_limit=2)


@dataclass(frozen=True, kw_only=True)
class Story:
    """What a job's master and people ask for, and what its pods do."""

    acts: Callable[[Stage], Coroutine[Any, Any, None]]
    script: Script


@dataclass(kw_only=True)
class Outcome:
    """What is left at rest, without times and uids; and what was made on the way."""

    pods: dict[str, str]
    services: list[str]
    plans: dict[str, tuple[str, str]]
    memory: dict[str, Any]


@dataclass(kw_only=True)
class Run:
    """One run to rest."""

    end: Outcome
    writes: int
    made: Counter[tuple[str, str]]
    late_writes: int


def play(story: Story, *, fatal: int | None = None, is_sent: bool = False) -> Run:
    """Run a story to rest, with the operator dying at its nth write if asked for, and coming back."""
    return virtual_time.run(_play(story, lambda inner: Mortal(inner, fatal=fatal, is_sent=is_sent)))


def play_with_fault(story: Story, at: int, fault: str) -> Run:
    """Run a story to rest, with one write of the operator going wrong."""
    return virtual_time.run(_play(story, lambda inner: Mortal(Faulty(inner, at=at, fault=fault))))


async def _play(story: Story, mortal_over: Callable[[Transport], Mortal]) -> Run:
    clock = virtual_time.VirtualClock()
    async with ApiServer.start(
        Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)
    ) as api:
        ledger, client = Ledger(api), KubeClient(InProcessTransport(api))
        for crd in DEFINITIONS:
            await client.create(CRDS, None, crd)
        nodes = StandInNodes(client, story.script)
        await nodes.register()
        mortal = mortal_over(ledger)
        stage = Stage(client)
        work = (nodes.run(), _operators(mortal, ledger, clock), story.acts(stage))
        tasks = [asyncio.create_task(each) for each in work]
        await asyncio.sleep(LONG_ENOUGH)
        await tasks[-1]
        end = await _end(stage)
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        return Run(end=end, writes=mortal.writes, made=ledger.made, late_writes=ledger.late_writes)


async def _operators(mortal: Mortal, ledger: Ledger, clock: virtual_time.VirtualClock) -> None:
    """The first operator until it dies, then a second one for good."""

    def operator(transport: Transport) -> Operator:
        return Operator(KubeClient(transport), clock, frontends=[KIND], config=BRIEF, key_secret=KEY_SECRET)

    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(operator(mortal).run())
        await mortal.died.wait()
        first.cancel()
        await operator(ledger).run()


async def _end(stage: Stage) -> Outcome:
    services = (await stage.client.list(SERVICES, SPACE)).items
    memory = (await stage.job()).get("pliant") or {}
    groups = {name: group.get("members") or {} for name, group in (memory.get("groups") or {}).items()}
    return Outcome(
        pods={name: pod["status"]["phase"] for name, pod in (await stage.pods()).items()},
        services=sorted(each["metadata"]["name"] for each in services),
        plans={
            name: (plan["status"]["phase"], plan["status"].get("message", ""))
            for name, plan in (await stage.plans()).items()
        },
        memory={
            "phase": memory.get("phase"),
            "members": groups,
            # How many ran when the job was first seen to run is a matter of time.
            "story": [
                moment["reason"] if moment["reason"] == "Running" else f"{moment['reason']} {moment.get('message')}"
                for moment in memory.get("timeline") or ()
            ],
        },
    )
