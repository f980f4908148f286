"""Kinds that kubectl expects on every cluster are served as empty lists, and say what to use instead of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.registry.unsupported_kinds import unsupported_kinds
from pliant.kube.resources import Resource
from pliant.kube.transport.base import APPLY_PATCH, JSON_CONTENT_TYPE, MERGE_PATCH, Request
from tests.embedded.serving import Served, serving
from tests.embedded.test_watch import open_watch
from tests.virtual_time import on_virtual_time

PRUNED_BY_KUBECTL = {
    "persistentvolumes",
    "replicationcontrollers",
    "cronjobs.batch",
    "daemonsets.apps",
    "ingresses.networking.k8s.io",
    "statefulsets.apps",
}
REPRESENTATIONS = (
    JSON_CONTENT_TYPE,
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    f"{JSON_CONTENT_TYPE};as=Table;v=v1;g=meta.k8s.io",
    f"{JSON_CONTENT_TYPE};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
)
KINDS = {kind.qualified_name: kind for kind in unsupported_kinds()}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving() as server:
        yield server


def resource_of(kind: Kind) -> Resource:
    return Resource(kind.group, kind.version, kind.plural, kind.kind, namespaced=kind.namespaced)


def path_of(kind: Kind, name: str | None = None) -> str:
    return resource_of(kind).path("default" if kind.namespaced else None, name)


def test_all_kinds_that_kubectl_prunes_are_served() -> None:
    assert set(KINDS) == PRUNED_BY_KUBECTL


@each_kind
async def test_discovery_offers_only_to_read_them(server: Served, kind: Kind) -> None:
    root = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
    _, discovered = await server.call("GET", root)
    [entry] = [each for each in discovered["resources"] if each["name"].partition("/")[0] == kind.plural]
    assert (entry["kind"], entry["verbs"]) == (kind.kind, ["get", "list", "watch"])
    _, document = await server.call("GET", f"/openapi/v3{root}")
    methods = {method for path, item in document["paths"].items() if kind.plural in path.split("/") for method in item}
    assert methods == {"get", "parameters"}


@each_kind
async def test_their_lists_are_empty_in_every_representation(server: Served, kind: Kind) -> None:
    for accept in REPRESENTATIONS:
        reply, listed = await server.call("GET", path_of(kind), accept=accept, labelSelector="app=x")
        assert reply.status == 200, (accept, reply.body)
        if accept is JSON_CONTENT_TYPE:
            assert (listed["kind"], listed["items"]) == (f"{kind.kind}List", [])
    reply, status = await server.call("GET", path_of(kind, "x"))
    assert (reply.status, status["message"]) == (404, f'{kind.qualified_name} "x" not found')


@each_kind
async def test_a_write_says_what_to_use_instead(server: Served, kind: Kind) -> None:
    made = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}}
    writes = [
        ("POST", path_of(kind), made, JSON_CONTENT_TYPE),
        ("POST", path_of(kind), b"not even JSON", JSON_CONTENT_TYPE),
        ("PUT", path_of(kind, "x"), made, JSON_CONTENT_TYPE),
        ("PATCH", path_of(kind, "x"), {}, MERGE_PATCH),
        ("PATCH", path_of(kind, "x"), made, APPLY_PATCH),
    ]
    for method, path, body, media in writes:
        reply, status = await server.call(method, path, body, media=media)
        assert (reply.status, status["reason"]) == (405, "MethodNotAllowed"), (method, path)
        assert status["message"] == kind.unsupported_message
    assert kind.unsupported_message.startswith(f"{kind.kind} is not supported by the embedded cluster: ")
    assert "; use a" in kind.unsupported_message


@each_kind
async def test_a_deletion_finds_nothing(server: Served, kind: Kind) -> None:
    reply, status = await server.call("DELETE", path_of(kind, "x"))
    assert (reply.status, status["message"]) == (404, f'{kind.qualified_name} "x" not found')
    reply, deleted = await server.call("DELETE", path_of(kind))
    assert (reply.status, deleted["items"]) == (200, [])


@on_virtual_time
async def test_a_watch_stays_open_and_sends_only_bookmarks() -> None:
    async with serving() as server:
        wishes = {"allowWatchBookmarks": "true", "timeoutSeconds": "600"}
        async with open_watch(server, resource_of(KINDS["statefulsets.apps"]), **wishes) as lines:
            await asyncio.sleep(61)
            assert [line["type"] for line in lines] == ["BOOKMARK"]


async def test_a_user_who_may_not_write_is_refused_first() -> None:
    async with serving(mode=AuthorizationMode.RBAC) as server:
        transport = InProcessTransport(server.api, {"username": "nobody", "groups": []})
        reply = await transport.send(Request(method="POST", path=path_of(KINDS["statefulsets.apps"]), body=b"{}"))
        assert reply.status == 403
