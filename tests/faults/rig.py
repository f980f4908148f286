"""A whole cluster with an operator on virtual time, to be disturbed and compared with itself undisturbed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec

from pliant.controllers.autoscale.options import AutoscaleOptions
from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, POD_DISRUPTION_BUDGETS, PODS, SERVICES, Resource
from pliant.kube.transport.base import Reply, Request, Transport
from pliant.model.labels import ATTEMPT_LABEL
from pliant.model.operator_config import OperatorConfig
from tests import virtual_time
from tests.faults.saving_replicas import Delay, SavingReplicas
from tests.faults.seam import Faulty, Mortal, Straggling
from tests.faults.stand_in_node import Script, StandInNodes

KIND = AITrainingJobFrontend()
DEFINITION = KIND.crd()
JOBS = Resource(KIND.group, KIND.version, KIND.plural, KIND.kind)
LONG_ENOUGH = 150.0
"""Virtual seconds after which every scenario has come to rest, crashes included."""

BRIEF = OperatorConfig(node_grace_period=timedelta(seconds=2), container_creation_timeout=timedelta(seconds=3))

UserActs = Callable[[KubeClient], Coroutine[Any, Any, None]]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A job, what its pods do, and what its user does meanwhile."""

    spec: dict[str, Any]
    script: Script
    user: UserActs | None = None
    rules: OperatorConfig = BRIEF
    autoscale: AutoscaleOptions | None = None
    """How sizes are planned, if they are."""
    saves_after: Delay | None = None
    """How long replicas take to save their state, if they can."""


@dataclass(kw_only=True)
class End:
    """What a cluster looks like at rest, without times and uids."""

    job: dict[str, Any] | None
    pods: dict[str, str]
    services: list[str]
    budgets: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Run:
    """One run to rest: its end, and what can be held against it."""

    end: End
    writes: int
    made: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each pod was made at each attempt."""
    late_writes: int = 0
    """Writes in the last third of the run, when nothing should happen any more."""
    deleted_early: list[str] = field(default_factory=list)
    """Replicas that were deleted before they had saved their state, or had the time to."""


class Ledger(InProcessTransport):
    """Keeps count of the pods that were really made and of the writes that came late."""

    def __init__(self, api: ApiServer) -> None:
        super().__init__(api)
        self.made: Counter[tuple[str, str]] = Counter()
        self.late_writes = 0

    async def send(self, request: Request) -> Reply:
        """Exchange one request and note what it did."""
        reply = await super().send(request)
        if request.method != "GET" and asyncio.get_running_loop().time() > LONG_ENOUGH * 2 / 3:
            self.late_writes += 1
        if request.method == "POST" and request.path.endswith("/pods") and reply.status == 201:
            metadata = msgspec.json.decode(reply.body)["metadata"]
            self.made[metadata["name"], metadata["labels"][ATTEMPT_LABEL]] += 1
        return reply


def play(scenario: Scenario, *, fatal: int | None = None, is_sent: bool = False) -> Run:
    """Run a scenario to rest, with the operator dying at its nth write if asked for, and coming back."""
    return virtual_time.run(_play(scenario, lambda inner: Mortal(inner, fatal=fatal, is_sent=is_sent)))


def play_with_straggler(scenario: Scenario, at: int, arrives_after: float) -> Run:
    """Run a scenario to rest, with a write that arrives when its operator is dead and another one at work."""
    return virtual_time.run(_play(scenario, lambda inner: Straggling(inner, fatal=at, arrives_after=arrives_after)))


def play_with_fault(scenario: Scenario, at: int, fault: str) -> Run:
    """Run a scenario to rest, with one write of the operator going wrong."""
    return virtual_time.run(_play(scenario, lambda inner: Mortal(Faulty(inner, at=at, fault=fault))))


def play_with_jump(scenario: Scenario, at: float, jump: Callable[[virtual_time.VirtualClock], None]) -> Run:
    """Run a scenario to rest, with the clocks of the machine disturbed once."""

    async def disturbed() -> Run:
        asyncio.get_running_loop().call_later(at, jump, virtual_time.VirtualClock())
        return await _play(scenario, Mortal)

    return virtual_time.run(disturbed())


async def _play(scenario: Scenario, mortal_over: Callable[[Transport], Mortal]) -> Run:
    clock = virtual_time.VirtualClock()
    store = Store.in_memory()
    async with ApiServer.start(store, KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)) as api:
        ledger = Ledger(api)
        client = KubeClient(InProcessTransport(api))
        await client.create(CRDS, None, DEFINITION)
        await client.create(JOBS, "default", _manifest(scenario.spec))
        stand_in = StandInNodes(client, scenario.script)
        await stand_in.register()
        saving = SavingReplicas(client, JOBS, scenario.saves_after) if scenario.saves_after else None
        node = asyncio.create_task(_run_nodes(stand_in, saving))
        user = asyncio.create_task(scenario.user(client)) if scenario.user else None
        mortal = mortal_over(ledger)
        operators = asyncio.create_task(_operators(mortal, ledger, clock, scenario))
        await asyncio.sleep(LONG_ENOUGH)
        if user is not None:
            await user
        end = await _end(client)
        for task in (node, operators):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        return Run(
            end=end,
            writes=mortal.writes,
            made=ledger.made,
            late_writes=ledger.late_writes,
            deleted_early=saving.deleted_early if saving is not None else [],
        )


async def _run_nodes(nodes: StandInNodes, saving: SavingReplicas | None) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(nodes.run())
        if saving is not None:
            tasks.create_task(saving.run())


async def _operators(mortal: Mortal, ledger: Ledger, clock: virtual_time.VirtualClock, scenario: Scenario) -> None:
    """The first operator until it dies, then a second one for good."""

    def operator(transport: Transport) -> Operator:
        return Operator(
            KubeClient(transport), clock, frontends=[KIND], config=scenario.rules, autoscale_options=scenario.autoscale
        )

    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(operator(mortal).run())
        await mortal.died.wait()
        first.cancel()
        await operator(ledger).run()


def _manifest(spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": spec,
    }


async def _end(client: KubeClient) -> End:
    jobs = (await client.list(JOBS, "default")).items
    pods = (await client.list(PODS, "default")).items
    services = (await client.list(SERVICES, "default")).items
    budgets = (await client.list(POD_DISRUPTION_BUDGETS, "default")).items
    return End(
        job=_essence(jobs[0].get("status") or {}) if jobs else None,
        pods={
            pod["metadata"]["name"]: f"{pod['metadata']['labels'][ATTEMPT_LABEL]} {pod['status']['phase']}"
            for pod in pods
        },
        services=sorted(service["metadata"]["name"] for service in services),
        budgets=[budget["metadata"]["name"] for budget in budgets],
    )


WHENEVER = ("lastRestartAt", "restartStreak", "streakStartAttempt", "creationStuckSince")
"""What is remembered about times, and what follows from them."""


def _essence(status: dict[str, Any]) -> dict[str, Any]:
    """A status without what legitimately differs between two runs: the times."""
    memory = status.get("pliant") or {}
    kept = ("phase", "message", "reason", "restarts", "RestartCount", "replicaStatuses", "ready")
    return {
        **{key: status.get(key) for key in kept},
        "groups": {
            name: {key: _timeless(value) for key, value in group.items() if key not in WHENEVER}
            for name, group in (memory.get("groups") or {}).items()
        },
        "story": [moment["reason"] for moment in memory.get("timeline") or ()],
    }


def _timeless(fact: Any) -> Any:
    if not isinstance(fact, dict):
        return fact
    lasting = {key: value for key, value in fact.items() if key != "at"}
    return {key: value["size"] if isinstance(value, dict) else value for key, value in lasting.items()}
