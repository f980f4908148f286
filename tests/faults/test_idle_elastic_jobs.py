"""An elastic job at rest costs no writes, also not when another operator takes over."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any

from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS, CRDS, POD_DISRUPTION_BUDGETS
from tests import virtual_time
from tests.faults.acts import scale_to
from tests.faults.rig import BRIEF, DEFINITION, JOBS, KIND
from tests.faults.saving_replicas import SavingReplicas
from tests.faults.scenarios import group
from tests.faults.seam import Mortal
from tests.faults.stand_in_node import FOR_EVER, StandInNodes

ELASTIC = {"checkpointGrace": 4, "disruptionBudget": True, "membershipFile": True}


async def writes_of_an_operator(api: ApiServer, seconds: float) -> int:
    """Let an operator work for some time; return how often it wrote."""
    transport = Mortal(InProcessTransport(api))
    operator = Operator(KubeClient(transport), virtual_time.VirtualClock(), frontends=[KIND], config=BRIEF)
    task = asyncio.create_task(operator.run())
    await asyncio.sleep(seconds)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return transport.writes


@virtual_time.on_virtual_time
async def test_an_elastic_job_at_rest_is_not_written_by_the_next_operator_either() -> None:
    store, clock = Store.in_memory(), virtual_time.VirtualClock()
    async with ApiServer.start(store, KindRegistry.with_builtin_kinds(), clock, rng=random.Random(0)) as api:
        client = KubeClient(InProcessTransport(api))
        await client.create(CRDS, None, DEFINITION)
        nodes = StandInNodes(client, lambda name, index, attempt: FOR_EVER)
        saving = SavingReplicas(client, JOBS, lambda index: 1.0)
        await nodes.register()
        spec = {"replicaSpecs": {"worker": group(3, minReplicas=1, maxReplicas=4)}, "elastic": ELASTIC}
        meta = {"name": "demo", "namespace": "default"}
        manifest: dict[str, Any] = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": meta, "spec": spec}
        await client.create(JOBS, "default", manifest)
        tasks = [asyncio.create_task(each) for each in (nodes.run(), saving.run(), scale_to(client, 2, after=8.0))]
        assert await writes_of_an_operator(api, 30.0) > 0
        [file] = [each for each in (await client.list(CONFIG_MAPS, "default")).items if "generation" in each["data"]]
        assert len((await client.list(POD_DISRUPTION_BUDGETS, "default")).items) == 1
        generation = (await client.get(JOBS, "default", "demo"))["status"]["pliant"]["membership"]["generation"]
        assert file["data"]["generation"].strip() == str(generation)
        assert await writes_of_an_operator(api, 3600.0) == 0
        for task in tasks:
            task.cancel()
