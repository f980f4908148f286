"""Our client against a real API server, also when it misbehaves."""

from __future__ import annotations

import asyncio
import json
import random
import stat
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pliant.controllers.events import EVENTS_RESOURCE, EventRecorder
from pliant.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from pliant.kube import client as client_module
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.codec import WatchEventType
from pliant.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource
from pliant.kube.transport.base import JSON_PATCH, STRATEGIC_MERGE_PATCH, Reply, Request, Transport
from pliant.kube.transport.retry import MAX_ATTEMPTS
from pliant.model.actions import EmitEvent
from pliant.model.job import Owner
from pliant.runtime.clock import SystemClock
from tests.builders import saying
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.overload import overloaded
from tests.real.wire import wired

pytestmark = pytest.mark.real

PATIENCE = 30.0


class Counted:
    """A transport that keeps what was asked."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.stream = inner.stream
        self.requests: list[Request] = []
        self.after: Callable[[], Awaitable[None]] | None = None
        """What happens after the next answer."""

    async def send(self, request: Request) -> Reply:
        self.requests.append(request)
        reply = await self._inner.send(request)
        if self.after is not None:
            after, self.after = self.after, None
            await after()
        return reply

    async def aclose(self) -> None: ...


@asynccontextmanager
async def client_of(kubeconfig: Path) -> AsyncIterator[KubeClient]:
    transport = create_transport(kubeconfig, None, SystemClock().now)
    async with aclosing(transport):
        yield KubeClient(transport)


@asynccontextmanager
async def counted(kubeconfig: Path) -> AsyncIterator[tuple[KubeClient, Counted]]:
    transport = create_transport(kubeconfig, None, SystemClock().now)
    async with aclosing(transport):
        counting = Counted(transport)
        yield KubeClient(counting), counting


@pytest.fixture
async def admin(real_kubeconfig: Path) -> AsyncIterator[KubeClient]:
    async with client_of(real_kubeconfig) as client:
        yield client


@pytest.fixture
async def namespace(admin: KubeClient) -> AsyncIterator[str]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    await admin.create(NAMESPACES, None, {"metadata": {"name": name}})
    yield name
    await admin.delete(NAMESPACES, None, name)


def note(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"a": "1"}}


class Followed:
    """An informer at work; waiting is for what its store should come to hold."""

    def __init__(self, client: KubeClient, namespace: str, **options: Any) -> None:
        self.changed = asyncio.Event()
        self.informer: Informer[dict[str, Any]] = Informer(
            client, CONFIG_MAPS, dict, namespace=namespace, on_change=self._note, rng=random.Random(1), **options
        )

    def _note(self, old: object, new: object) -> None:
        self.changed.set()

    def names(self) -> set[str]:
        return {found["metadata"]["name"] for found in self.informer.store.all()} - {"kube-root-ca.crt"}

    async def until(self, *names: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.names() != set(names):
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def following(client: KubeClient, namespace: str, **options: Any) -> AsyncIterator[Followed]:
    followed = Followed(client, namespace, **options)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(followed.informer.run())
        async with asyncio.timeout(PATIENCE):
            await followed.informer.wait_synced()
        yield followed
        running.cancel()


# Reading.


async def test_a_list_comes_in_pages_of_one_version(
    real_kubeconfig: Path, admin: KubeClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "LIST_PAGE_SIZE", 5)
    for number in range(12):
        await admin.create(CONFIG_MAPS, namespace, note(f"n-{number:02}", app="x"))
    async with counted(real_kubeconfig) as (client, asked):

        async def interfere() -> None:
            await admin.delete(CONFIG_MAPS, namespace, "n-11")
            await admin.create(CONFIG_MAPS, namespace, note("n-99", app="x"))

        asked.after = interfere
        listing = await client.list(CONFIG_MAPS, namespace, labels="app=x")
    assert [item["metadata"]["name"] for item in listing.items] == [f"n-{number:02}" for number in range(12)]
    assert len(asked.requests) == 3
    assert all("managedFields" not in item["metadata"] for item in listing.items)
    [gone, came] = [event async for event in _first(admin, namespace, listing.resource_version, 2)]
    assert (gone.type, came.type) == (WatchEventType.DELETED, WatchEventType.ADDED)


async def _first(client: KubeClient, namespace: str, since: str | None, many: int) -> AsyncIterator[Any]:
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(client.watch(CONFIG_MAPS, namespace, resource_version=since)) as events,
    ):
        async for event in events:
            if event.object is not None and event.object["metadata"]["name"] != "kube-root-ca.crt":
                yield event
                many -= 1
                if not many:
                    return


async def test_a_page_that_expired_is_followed_by_the_whole(
    real_kubeconfig: Path, plane: ControlPlane, admin: KubeClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "LIST_PAGE_SIZE", 5)
    for number in range(12):
        await admin.create(CONFIG_MAPS, namespace, note(f"n-{number:02}", app="x"))
    async with counted(real_kubeconfig) as (client, asked):

        async def forget() -> None:
            await admin.delete(CONFIG_MAPS, namespace, "n-00")
            plane.etcd.compact()
            await restart(plane, admin)  # it answers old pages from memory as long as it lives

        asked.after = forget
        listing = await client.list(CONFIG_MAPS, namespace, labels="app=x")
    assert [item["metadata"]["name"] for item in listing.items] == [f"n-{number:02}" for number in range(1, 12)]
    assert "limit" not in asked.requests[-1].query


async def test_a_list_may_be_streamed(admin: KubeClient, namespace: str) -> None:
    for name in ("a", "b"):
        await admin.create(CONFIG_MAPS, namespace, note(name))
    async with following(admin, namespace, streaming=True) as followed:
        assert followed.names() == {"a", "b"}
        await admin.create(CONFIG_MAPS, namespace, note("c"))
        await followed.until("a", "b", "c")
        assert (followed.informer.list_count, followed.informer.watch_count) == (1, 1)


async def test_an_object_that_leaves_the_selection_is_deleted_to_those_who_select(
    admin: KubeClient, namespace: str
) -> None:
    async with following(admin, namespace, labels="app=x") as picked, following(admin, namespace) as everything:
        await admin.create(CONFIG_MAPS, namespace, note("a", app="x"))
        await picked.until("a")
        await admin.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"labels": {"app": "y"}}})
        await picked.until()
        await everything.until("a")


async def test_a_watch_line_may_be_as_long_as_an_object_can_be(admin: KubeClient, namespace: str) -> None:
    large = {**note("large"), "data": {"text": "x" * 1_000_000}}
    async with following(admin, namespace) as followed:
        await admin.create(CONFIG_MAPS, namespace, large)
        await followed.until("large")
        found = followed.informer.store.get(namespace, "large")
        assert found is not None
        assert len(found["data"]["text"]) == 1_000_000


# A server that comes and goes.


async def restart(plane: ControlPlane, client: KubeClient) -> None:
    """Another server at the same place; a read notices that the connections to the old one are broken."""
    plane.stop_apiserver()
    plane.start_apiserver()
    await client.get_raw("/readyz", accept="*/*")


async def test_a_watch_goes_on_after_the_server_was_restarted(
    plane: ControlPlane, admin: KubeClient, namespace: str
) -> None:
    async with following(admin, namespace) as followed:
        await admin.create(CONFIG_MAPS, namespace, note("before"))
        await followed.until("before")
        await restart(plane, admin)
        await admin.create(CONFIG_MAPS, namespace, note("after"))
        await followed.until("before", "after")
        # The new server may know less history than the watch needs; then a list makes up for it.
        assert followed.informer.watch_count > 1


async def test_lost_history_is_made_up_for_by_a_list_with_its_deletions(
    plane: ControlPlane, admin: KubeClient, namespace: str, tmp_path: Path
) -> None:
    async with wired(plane.kubeconfig, tmp_path) as (wire, through), client_of(through) as client:
        for name in ("stays", "goes"):
            await admin.create(CONFIG_MAPS, namespace, note(name))
        async with following(client, namespace) as followed:
            known = str(followed.informer.store.resource_version)
            wire.is_open = False
            wire.cut()
            await admin.delete(CONFIG_MAPS, namespace, "goes")
            await admin.create(CONFIG_MAPS, namespace, note("comes"))
            plane.etcd.compact()
            await restart(plane, admin)
            with pytest.raises(Gone):
                [event async for event in _first(admin, namespace, known, 1)]
            wire.is_open = True
            await followed.until("stays", "comes")
            assert followed.informer.list_count == 2


# Writing.


async def test_whoever_comes_second_is_told_so(admin: KubeClient, namespace: str) -> None:
    first = await admin.create(CONFIG_MAPS, namespace, note("a"))
    with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
        await admin.create(CONFIG_MAPS, namespace, note("a"))
    second = await admin.replace(CONFIG_MAPS, namespace, "a", {**first, "data": {"a": "2"}})
    with pytest.raises(Conflict, match="the object has been modified"):
        await admin.replace(CONFIG_MAPS, namespace, "a", {**first, "data": {"a": "3"}})
    stale = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"a": "4"}}
    with pytest.raises(Conflict):
        await admin.patch(CONFIG_MAPS, namespace, "a", stale)
    with pytest.raises(Conflict, match=r"the UID in the precondition .* does not match the UID in record"):
        await admin.delete(CONFIG_MAPS, namespace, "a", uid=str(uuid.uuid4()))
    with pytest.raises(Conflict, match="the ResourceVersion in the precondition"):
        await admin.delete(CONFIG_MAPS, namespace, "a", resource_version=first["metadata"]["resourceVersion"])
    meta = second["metadata"]
    await admin.delete(CONFIG_MAPS, namespace, "a", uid=meta["uid"], resource_version=meta["resourceVersion"])


async def test_every_kind_of_patch_is_taken(admin: KubeClient, namespace: str) -> None:
    await admin.create(CONFIG_MAPS, namespace, note("a", app="x"))
    await admin.patch(CONFIG_MAPS, namespace, "a", {"data": {"merge": "1", "a": None}})
    steps = [{"op": "test", "path": "/data/merge", "value": "1"}, {"op": "add", "path": "/data/json", "value": "1"}]
    await admin.patch(CONFIG_MAPS, namespace, "a", steps, content_type=JSON_PATCH)
    done = await admin.patch(CONFIG_MAPS, namespace, "a", {"data": {"s": "1"}}, content_type=STRATEGIC_MERGE_PATCH)
    assert done["data"] == {"merge": "1", "json": "1", "s": "1"}
    with pytest.raises(Invalid):
        await admin.patch(
            CONFIG_MAPS, namespace, "a", [*steps[:1], {"op": "remove", "path": "/no"}], content_type=JSON_PATCH
        )


async def test_applied_fields_have_one_owner_unless_taken_by_force(admin: KubeClient, namespace: str) -> None:
    await admin.apply(CONFIG_MAPS, namespace, {"metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}})
    theirs = {"metadata": {"name": "a"}, "data": {"x": "2"}}
    with pytest.raises(Conflict, match=r'conflict with "pliant": .*\.data\.x'):
        await admin.apply(CONFIG_MAPS, namespace, theirs, field_manager="other")
    taken = await admin.apply(CONFIG_MAPS, namespace, theirs, field_manager="other", force=True)
    assert taken["data"] == {"x": "2", "y": "1"}
    left = await admin.apply(CONFIG_MAPS, namespace, {"metadata": {"name": "a"}})
    assert left["data"] == {"x": "2"}


async def test_a_reply_lost_after_the_commit_leaves_writes_to_the_caller_and_repeats_reads(
    real_kubeconfig: Path, admin: KubeClient, namespace: str, tmp_path: Path
) -> None:
    async with wired(real_kubeconfig, tmp_path) as (wire, through), client_of(through) as client:

        async def lost(call: Callable[[], Awaitable[Any]]) -> Any:
            await client.get_raw("/readyz", accept="*/*")  # a connection is there, so what is lost is the reply
            wire.loses_replies = True
            return await call()

        with pytest.raises(Unreachable):
            await lost(lambda: client.create(CONFIG_MAPS, namespace, note("a")))
        made = await admin.get(CONFIG_MAPS, namespace, "a")  # it was carried out
        with pytest.raises(AlreadyExists):
            await client.create(CONFIG_MAPS, namespace, note("a"))
        meta = made["metadata"]
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "data": {"b": "2"}}
        with pytest.raises(Unreachable):
            await lost(lambda: client.patch(CONFIG_MAPS, namespace, "a", patch))
        with pytest.raises(Conflict):
            await client.patch(CONFIG_MAPS, namespace, "a", patch)
        found = await lost(lambda: client.get(CONFIG_MAPS, namespace, "a"))
        assert found["data"] == {"a": "1", "b": "2"}
        with pytest.raises(Unreachable):
            await lost(lambda: client.delete(CONFIG_MAPS, namespace, "a", uid=meta["uid"]))
        with pytest.raises(ApiError, match="not found"):
            await client.delete(CONFIG_MAPS, namespace, "a", uid=meta["uid"])


async def test_an_overloaded_server_is_asked_again_and_then_left_alone(
    plane: ControlPlane, admin: KubeClient, namespace: str
) -> None:
    async with overloaded(plane, admin, "hasty"), counted(plane.kubeconfig_for("hasty")) as (client, asked):
        with pytest.raises(TooManyRequests, match="Too many requests") as refused:
            await client.create(CONFIG_MAPS, namespace, note("a"))
        assert refused.value.retry_after == 1.0
        assert len(asked.requests) == MAX_ATTEMPTS
    with pytest.raises(ApiError, match="not found"):
        await admin.get(CONFIG_MAPS, namespace, "a")


# Who we are.

WHO_AM_I = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")


async def issue_token(admin: KubeClient, namespace: str, account: str) -> str:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    issued = await admin.create(SERVICE_ACCOUNTS, namespace, request, subresource="token", name=account)
    token: str = issued["status"]["token"]
    return token


async def account_with_view(admin: KubeClient, namespace: str, account: str) -> str:
    """The token of a new account that may read what is in its namespace."""
    await admin.create(SERVICE_ACCOUNTS, namespace, {"metadata": {"name": account}})
    role = {"apiGroup": BINDINGS.group, "kind": "ClusterRole", "name": "view"}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    body = {"metadata": {"name": account}, "roleRef": role, "subjects": [subject]}
    await admin.create(BINDINGS, namespace, body)
    return await issue_token(admin, namespace, account)


def kubeconfig_of(plane: ControlPlane, file: Path, user: dict[str, Any]) -> Path:
    document = yaml.safe_load(plane.kubeconfig.read_text())
    document["users"][0]["user"] = user
    file.write_text(yaml.safe_dump(document))
    return file


async def test_a_right_that_is_missing_is_named_with_verb_and_resource(
    plane: ControlPlane, admin: KubeClient, namespace: str
) -> None:
    token = await account_with_view(admin, namespace, "viewer")
    async with client_of(plane.kubeconfig_with(token)) as viewer:
        await viewer.list(PODS, namespace)
        who = f'User "system:serviceaccount:{namespace}:viewer" cannot delete resource "pods" in API group ""'
        with pytest.raises(Forbidden, match=who):
            await viewer.delete(PODS, namespace, "a")
        with pytest.raises(Forbidden, match=r'cannot list resource "pods" .* at the cluster scope'):
            await viewer.list(PODS)


async def test_a_token_that_is_rotated_is_used_at_once(
    plane: ControlPlane, admin: KubeClient, namespace: str, tmp_path: Path
) -> None:
    tokens = {account: await account_with_view(admin, namespace, account) for account in ("first", "second")}
    file = tmp_path / "token"

    def rotate(token: str) -> None:
        (tmp_path / "next").write_text(token)
        (tmp_path / "next").replace(file)

    rotate(tokens["first"])
    async with client_of(kubeconfig_of(plane, tmp_path / "config", {"tokenFile": "token"})) as client:
        for account in ("first", "second"):
            rotate(tokens[account])
            who = (await client.create(WHO_AM_I, None, {}))["status"]["userInfo"]["username"]
            assert who == f"system:serviceaccount:{namespace}:{account}"
        rotate("no.good.token")
        with pytest.raises(Unauthorized):
            await client.list(PODS, namespace)
        rotate(tokens["first"])
        await client.list(PODS, namespace)


async def test_an_expired_credential_of_a_program_is_renewed_when_the_server_says_so(
    plane: ControlPlane, admin: KubeClient, namespace: str, tmp_path: Path
) -> None:
    good = await account_with_view(admin, namespace, "viewer")
    answers = tmp_path / "answers"
    program = tmp_path / "login"
    program.write_text(
        f"#!{sys.executable} -S\nimport json, pathlib\n"
        f"lines = pathlib.Path({str(answers)!r}).read_text().splitlines()\n"
        f"runs = pathlib.Path({str(tmp_path / 'runs')!r})\n"
        "count = int(runs.read_text()) if runs.exists() else 0\nruns.write_text(str(count + 1))\n"
        "print(lines[min(count, len(lines) - 1)])\n"
    )
    program.chmod(stat.S_IRWXU)
    version = "client.authentication.k8s.io/v1"

    def answer(token: str, until: str) -> str:
        status = {"token": token, "expirationTimestamp": until}
        return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})

    over = answer("not.a.token", "2020-01-01T00:00:00Z")
    answers.write_text(over)
    entry = {"apiVersion": version, "command": str(program), "interactiveMode": "Never"}
    kubeconfig = kubeconfig_of(plane, tmp_path / "config", {"exec": entry})
    async with client_of(kubeconfig) as client:
        with pytest.raises(Unauthorized):
            await client.list(PODS, namespace)
    answers.write_text("\n".join([over, over, answer(good, "2099-01-01T00:00:00Z")]))
    times = Times()
    transport = create_transport(kubeconfig, None, times.now)
    async with aclosing(transport):
        client = KubeClient(transport)
        with pytest.raises(Unauthorized):
            await client.list(PODS, namespace)
        times.pass_seconds(60)
        await client.list(PODS, namespace)
    assert (tmp_path / "runs").read_text() == "3"


class Times:
    """The real time, and then some."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def pass_seconds(self, seconds: float) -> None:
        self._ahead += seconds

    def now(self) -> Any:
        from datetime import timedelta

        return SystemClock().now() + timedelta(seconds=self._ahead)


# Telling.


async def test_events_are_taken_and_counted(admin: KubeClient, namespace: str) -> None:
    made = await admin.create(CONFIG_MAPS, namespace, note("a"))
    owner = Owner(api_version="v1", kind="ConfigMap", name="a", uid=made["metadata"]["uid"])
    recorder = EventRecorder(admin, SystemClock(), "here")
    async with recorder.run_in_background():
        recorder.emit(owner, namespace, EmitEvent(reason="Restarting", message=saying("once"), is_warning=True))
        for number in range(20):
            recorder.emit(owner, namespace, EmitEvent(reason="Flood", message=saying(f"number {number}")))
    told = (await admin.list(EVENTS_RESOURCE, namespace, fields="reason=Flood")).items
    assert len(told) == 10
    assert [event["series"]["count"] for event in told if "series" in event] == [11]
    older = Resource("", "v1", "events", "Event")
    about = f"involvedObject.uid={made['metadata']['uid']},reason=Restarting"
    [event] = (await admin.list(older, namespace, fields=about)).items
    assert (event["message"], event["type"]) == ("once", "Warning")
