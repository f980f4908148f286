"""The keys of jobs: in the pods that need them, and nowhere else."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest

from pliant.controllers.events import EVENTS_RESOURCE
from pliant.controllers.operator import Operator
from pliant.controllers.rbac.master_access import ROLE_BINDINGS_RESOURCE, ROLES_RESOURCE
from pliant.frontends.elasticjob.job import ElasticJobFrontend
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS, PODS, SERVICE_ACCOUNTS, SERVICES
from pliant.kube.transport.base import Reply, Request
from tests.builders import KEY_SECRET
from tests.controllers.elastic import JOBS, MASTER, PLANS, SPACE, Stage, staged, workers
from tests.controllers.operated import operating
from tests.faults.seam import Mortal
from tests.scenarios.messages import create_errors, message_in
from tests.virtual_time import VirtualClock, on_virtual_time, passing

A_WHILE = timedelta(seconds=30)
KINDS = [ElasticJobFrontend()]
VARIABLES = ("PLIANT_MASTER_KEY", "PLIANT_MEMBERSHIP_KEY", "PLIANT_REPORT_TOKEN")
BESIDE_PODS = (
    *(JOBS, PLANS, EVENTS_RESOURCE, CONFIG_MAPS, SERVICES, SERVICE_ACCOUNTS),
    *(ROLES_RESOURCE, ROLE_BINDINGS_RESOURCE),
)


def variables(pod: dict[str, Any]) -> dict[str, str]:
    """The variables of every container of a pod."""
    containers = pod["spec"]["containers"]
    return {each["name"]: each["value"] for one in containers for each in one.get("env") or () if "value" in each}


class Grudging(Mortal):
    """A transport on which the first pod is refused."""

    has_refused = False

    async def send(self, request: Request) -> Reply:
        if request.method == "POST" and request.path.endswith("/pods") and not self.has_refused:
            self.has_refused = True
            said = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "exceeded quota"}
            return Reply(status=403, body=json.dumps(said).encode())
        return await super().send(request)


async def live(stage: Stage) -> None:
    """Let a job gain, lose and replace members, and fail at last."""
    await stage.submit()
    await passing(A_WHILE)
    await stage.plan("demo-scaleplan-0", **workers(2))
    await passing(A_WHILE)
    await stage.client.delete(PODS, SPACE, "demo-edljob-worker-1")
    await stage.plan("demo-wrong", removePods=[{"name": "another-pod"}])
    await stage.client.patch(JOBS, SPACE, "demo", {"spec": {"distributionStrategy": "Nonsense"}})
    await passing(A_WHILE)


@on_virtual_time
async def test_keys_are_in_the_pods_of_a_job_and_in_no_status_event_log_or_other_object(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with staged(through=Grudging) as stage:
        await live(stage)
        pods = (await stage.pods()).values()
        assert len(pods) > 1
        keys = {variables(pod)[name] for pod in pods for name in VARIABLES}
        assert len(keys) == len(VARIABLES)
        lists = [(await stage.client.list(kind, SPACE)).items for kind in BESIDE_PODS]
        assert all(lists[:3])
        secret = {*keys, KEY_SECRET.decode()}
        assert [word for word in secret if word in json.dumps(lists)] == []
    told = [str({**record.__dict__, "message": record.getMessage()}) for record in caplog.records]
    assert told
    assert [line for line in told if any(word in line for word in secret)] == []


@on_virtual_time
async def test_another_secret_changes_nothing_that_runs() -> None:
    async with staged() as stage:
        await stage.submit()
        await passing(A_WHILE)
        await stage.plan("demo-scaleplan-0", **workers(2))
        await passing(A_WHILE)
        before = await stage.pods()
        counted = Mortal(stage.client._transport)
        next_one = Operator(KubeClient(counted), VirtualClock(), frontends=KINDS, key_secret=b"another")
        async with operating(next_one):
            await passing(A_WHILE)
        assert counted.writes == 0
        assert await stage.pods() == before


@on_virtual_time
async def test_without_a_secret_a_master_waits_and_its_author_reads_why() -> None:
    async with staged(key_secret=None) as stage:
        await stage.submit()
        await stage.submit(name="other", command=["theirs"])
        await passing(A_WHILE)
        # Masters that check no keys need none.
        [(name, pod)] = (await stage.pods()).items()
        assert name == "elasticjob-other-dlrover-master-0"
        assert not {*VARIABLES} & variables(pod).keys()
        assert "no secret to derive the keys" in create_errors(message_in(await stage.job()))[MASTER]
