"""Accounts of masters: what becomes of a job whose master may not be given its rights."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from pliant.controllers.events import EVENTS_RESOURCE
from pliant.controllers.rbac.master_access import ROLE_BINDINGS_RESOURCE, ROLES_RESOURCE
from pliant.kube.resources import PODS, SERVICE_ACCOUNTS
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport
from tests.controllers.elastic import JOBS, MASTER, SPACE, Stage, staged
from tests.scenarios.messages import create_errors, message_in, message_of, text_of
from tests.virtual_time import on_virtual_time, passing

A_WHILE = timedelta(seconds=30)
WORKER = {"template": {"spec": {"containers": [{"name": "trainer", "image": "train"}]}}}


class Miserly:
    """A transport of somebody who may not make roles, until somebody relents."""

    def __init__(self, inner: Transport) -> None:
        self.relents = False
        self._inner = inner

    async def send(self, request: Request) -> Reply:
        """Exchange one request, or refuse it as a server does."""
        if request.method == "POST" and request.path.endswith("/roles") and not self.relents:
            said = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "you may not create roles"}
            return Reply(status=403, body=json.dumps(said).encode())
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        """Open a stream."""
        async with self._inner.stream(request) as reply:
            yield reply

    async def aclose(self) -> None:
        """Nothing is held."""


async def told(stage: Stage, reason: str) -> list[str]:
    """What was told for a reason."""
    events = (await stage.client.list(EVENTS_RESOURCE, SPACE)).items
    return [text_of(message_of(event)) for event in events if event["reason"] == reason]


@on_virtual_time
async def test_a_master_that_may_not_be_given_its_rights_waits_and_its_author_reads_why() -> None:
    misers: list[Miserly] = []

    def through(inner: Transport) -> Transport:
        misers.append(Miserly(inner))
        return misers[-1]

    async with staged(through=through) as stage:
        await stage.submit()
        await passing(A_WHILE)
        assert await stage.pods() == {}
        [said] = await told(stage, "FailedGrantAccess")
        assert "cannot create a Role for the master's service account" in said
        assert "you may not create roles" in said
        assert "pliant install" in said
        assert MASTER in create_errors(message_in(await stage.job()))
        misers[0].relents = True
        await passing(timedelta(minutes=5))
        assert f"{MASTER}-0" in await stage.pods()


@on_virtual_time
async def test_a_master_with_an_account_of_its_own_starts_all_the_same() -> None:
    async with staged(through=Miserly) as stage:
        spec: dict[str, Any] = {"serviceAccountName": "mine", "containers": [{"name": "trainer"}]}
        await stage.submit(replicaSpecs={"dlrover-master": {"template": {"spec": spec}}, "worker": WORKER})
        await passing(A_WHILE)
        assert f"{MASTER}-0" in await stage.pods()
        [said] = await told(stage, "FailedGrantAccess")
        assert said.endswith("or grant mine these permissions yourself")


@on_virtual_time
async def test_the_next_master_gets_what_an_earlier_operator_did_not_grant() -> None:
    async with staged() as stage:
        await stage.submit()
        await passing(A_WHILE)
        wanted = (await stage.client.get(ROLES_RESOURCE, SPACE, MASTER))["rules"]
        await stage.client.patch(ROLES_RESOURCE, SPACE, MASTER, {"rules": wanted[:2]})
        await stage.client.delete(PODS, SPACE, f"{MASTER}-0")
        await passing(A_WHILE)
        assert (await stage.client.get(ROLES_RESOURCE, SPACE, MASTER))["rules"] == wanted


@on_virtual_time
async def test_what_an_earlier_job_of_the_name_left_is_waited_for_and_what_people_made_is_used() -> None:
    async with staged() as stage:
        owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": "demo", "uid": "1", "controller": True}
        for resource, meta in ((ROLES_RESOURCE, {"ownerReferences": [owner]}), (SERVICE_ACCOUNTS, {})):
            body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": MASTER, **meta}}
            await stage.client.create(resource, SPACE, body)
        await stage.submit()
        await passing(timedelta(minutes=1))
        assert f"{MASTER}-0" in await stage.pods()
        assert (await stage.client.get(ROLES_RESOURCE, SPACE, MASTER))["rules"]


@on_virtual_time
async def test_a_master_whose_account_was_edited_has_its_rights_under_the_new_one() -> None:
    async with staged() as stage:
        await stage.submit()
        await passing(A_WHILE)
        spec = {"serviceAccountName": "mine", "containers": [{"name": "trainer"}]}
        edit = {"spec": {"replicaSpecs": {"dlrover-master": {"template": {"spec": spec}}}}}
        await stage.client.patch(JOBS, SPACE, "demo", edit)
        await stage.client.delete(PODS, SPACE, f"{MASTER}-0", grace_period_seconds=0)
        await passing(A_WHILE)
        assert (await stage.pods())[f"{MASTER}-0"]["spec"]["serviceAccountName"] == "mine"
        bound = await stage.client.get(ROLE_BINDINGS_RESOURCE, SPACE, MASTER)
        assert bound["subjects"] == [{"kind": "ServiceAccount", "name": "mine", "namespace": SPACE}]
