"""Accounts of masters: what becomes of a job whose master may not be given its rights."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from pliant.controllers.events import EVENTS_RESOURCE
from pliant.controllers.rbac.master_access import ROLE_BINDINGS_RESOURCE, ROLES_RESOURCE
from pliant.frontends.elasticjob.job import ElasticJobFrontend
from pliant.kube.resources import PODS, SERVICE_ACCOUNTS
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport
from pliant.model.messages import MessageReason
from tests.controllers.elastic import JOBS, MASTER, SPACE, Stage, staged
from tests.scenarios.messages import create_errors, message_in, message_of, name_conflict, text_of
from tests.virtual_time import on_virtual_time, passing

KIND = ElasticJobFrontend()
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
        assert f"cannot create Role {MASTER} for the master" in said
        assert "you may not create roles" in said
        assert "pliant install" in said
        assert MASTER in create_errors(message_in(await stage.job()))
        misers[0].relents = True
        await passing(timedelta(minutes=5))
        assert f"{MASTER}-0" in await stage.pods()


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


ACCOUNT = {"metadata": {"name": "mine"}}


def with_account(account: str) -> dict[str, Any]:
    """The members of a job whose master runs under this account."""
    spec: dict[str, Any] = {"serviceAccountName": account, "containers": [{"name": "trainer"}]}
    return {"dlrover-master": {"template": {"spec": spec}}, "worker": WORKER}


class Reviewing(Miserly):
    """A transport to a server that tells who may do what."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.relents = True
        self.allowed = False
        self.status = 201
        self.asked: list[dict[str, Any]] = []

    async def send(self, request: Request) -> Reply:
        if not request.path.endswith("/subjectaccessreviews"):
            return await super().send(request)
        if self.status != 201:
            said = {"kind": "Status", "code": self.status, "message": "no"}
            return Reply(status=self.status, body=json.dumps(said).encode())
        spec = json.loads(request.body or b"{}")["spec"]
        self.asked.append(spec)
        allowed = self.allowed or spec["resourceAttributes"]["resource"] != "scaleplans"
        return Reply(status=201, body=json.dumps({"spec": spec, "status": {"allowed": allowed}}).encode())


def reviewed(**fields: Any) -> tuple[list[Reviewing], Callable[[Transport], Transport]]:
    """A way to a server that tells who may do what, and the transport once it is in use."""
    found: list[Reviewing] = []

    def through(inner: Transport) -> Transport:
        found.append(Reviewing(inner))
        for name, value in fields.items():
            setattr(found[-1], name, value)
        return found[-1]

    return found, through


@on_virtual_time
async def test_a_job_that_names_the_account_of_everybody_gives_everybody_nothing() -> None:
    _, through = reviewed(allowed=True)
    async with staged(through=through) as stage:
        await stage.submit(replicaSpecs=with_account("default"))
        await passing(A_WHILE)
        assert (await stage.pods())[f"{MASTER}-0"]["spec"]["serviceAccountName"] == "default"
        assert (await stage.client.list(ROLE_BINDINGS_RESOURCE, SPACE)).items == []
        assert not await stage.is_there(SERVICE_ACCOUNTS, MASTER)


@on_virtual_time
async def test_a_job_waits_for_the_rights_of_the_account_it_names_and_says_which_and_how_to_give_them() -> None:
    transports, through = reviewed()
    async with staged(through=through) as stage:
        await stage.client.create(SERVICE_ACCOUNTS, SPACE, ACCOUNT)
        await stage.submit(replicaSpecs=with_account("mine"))
        await passing(A_WHILE)
        assert await stage.pods() == {}
        [missing] = message_in(await stage.job()).details
        assert missing.reason == MessageReason.MASTER_ACCESS_MISSING
        assert text_of(missing, "missing") == "create list watch scaleplans.elastic.iml.github.io"
        assert (text_of(missing, "account"), text_of(missing, "role")) == ("mine", MASTER)
        assert [each.partition(":")[0] for each in await told(stage, "MasterAccessMissing")] == [""]
        assert (await stage.client.get(ROLES_RESOURCE, SPACE, MASTER))["rules"]
        assert (await stage.client.list(ROLE_BINDINGS_RESOURCE, SPACE)).items == []
        asked = transports[0].asked[0]
        assert asked["user"] == f"system:serviceaccount:{SPACE}:mine"
        assert f"system:serviceaccounts:{SPACE}" in asked["groups"]
        transports[0].allowed = True
        await passing(timedelta(minutes=5))
        assert f"{MASTER}-0" in await stage.pods()


@on_virtual_time
async def test_a_master_of_others_needs_all_that_it_would_be_given_but_events() -> None:
    transports, through = reviewed(allowed=True)
    async with staged(through=through) as stage:
        container = {"name": "trainer", "image": "theirs", "command": ["theirs"]}
        spec = {"serviceAccountName": "mine", "containers": [container]}
        await stage.client.create(SERVICE_ACCOUNTS, SPACE, ACCOUNT)
        await stage.submit(replicaSpecs={"dlrover-master": {"template": {"spec": spec}}, "worker": WORKER})
        await passing(A_WHILE)
        attributes = [each["resourceAttributes"] for each in transports[0].asked]
        assert {"create", "delete", "patch"} <= {each["verb"] for each in attributes if each["resource"] == "pods"}
        assert "events" not in {each["resource"] for each in attributes}


@pytest.mark.parametrize("status", [403, 404])
@on_virtual_time
async def test_where_nobody_tells_who_may_do_what_a_master_with_an_account_of_its_own_starts(status: int) -> None:
    _, through = reviewed(status=status)
    async with staged(through=through) as stage:
        await stage.client.create(SERVICE_ACCOUNTS, SPACE, ACCOUNT)
        await stage.submit(replicaSpecs=with_account("mine"))
        await passing(A_WHILE)
        assert f"{MASTER}-0" in await stage.pods()


@on_virtual_time
async def test_an_account_or_role_that_people_made_under_the_name_is_never_granted_anything() -> None:
    for resource in (SERVICE_ACCOUNTS, ROLES_RESOURCE, ROLE_BINDINGS_RESOURCE):
        async with staged() as stage:
            ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "theirs"}
            more = {"roleRef": ref} if resource is ROLE_BINDINGS_RESOURCE else {}
            body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": MASTER}, **more}
            before = await stage.client.create(resource, SPACE, body)
            await stage.submit()
            await passing(timedelta(minutes=1))
            assert await stage.pods() == {}
            assert name_conflict(message_in(await stage.job())) == (MASTER, "exists and belongs to no job")
            assert await stage.client.get(resource, SPACE, MASTER) == before
            bindings = (await stage.client.list(ROLE_BINDINGS_RESOURCE, SPACE)).items
            assert [each for each in bindings if each.get("subjects")] == []
            await stage.client.delete(resource, SPACE, MASTER)
            await passing(timedelta(minutes=5))
            assert f"{MASTER}-0" in await stage.pods()


@on_virtual_time
async def test_what_an_earlier_job_of_the_name_left_is_waited_for() -> None:
    async with staged() as stage:
        owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": "demo", "uid": "1", "controller": True}
        meta = {"name": MASTER, "ownerReferences": [owner]}
        body = {"apiVersion": ROLES_RESOURCE.api_version, "kind": ROLES_RESOURCE.kind, "metadata": meta}
        await stage.client.create(ROLES_RESOURCE, SPACE, body)
        await stage.submit()
        await passing(timedelta(minutes=1))
        assert f"{MASTER}-0" in await stage.pods()
        assert (await stage.client.get(ROLES_RESOURCE, SPACE, MASTER))["rules"]


@on_virtual_time
async def test_a_master_whose_account_was_edited_leaves_its_rights_behind() -> None:
    async with staged(through=reviewed(allowed=True)[1]) as stage:
        await stage.submit()
        await passing(A_WHILE)
        await stage.client.create(SERVICE_ACCOUNTS, SPACE, ACCOUNT)
        edit = {"spec": {"replicaSpecs": {"dlrover-master": with_account("mine")["dlrover-master"]}}}
        await stage.client.patch(JOBS, SPACE, "demo", edit)
        await stage.client.delete(PODS, SPACE, f"{MASTER}-0", grace_period_seconds=0)
        await passing(A_WHILE)
        assert (await stage.pods())[f"{MASTER}-0"]["spec"]["serviceAccountName"] == "mine"
        bound = await stage.client.get(ROLE_BINDINGS_RESOURCE, SPACE, MASTER)
        assert bound["subjects"] == [{"kind": "ServiceAccount", "name": MASTER, "namespace": SPACE}]
