from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from pliant.errors import NotFound, Unreachable
from pliant.kube.client import KubeClient
from pliant.kube.resources import NAMESPACES, PODS
from pliant.kube.transport.base import Reply, Request
from pliant.kube.transport.metered import ApiCallLabels, MeteredTransport, rbac_verb_and_resource
from tests.embedded.serving import pod, serving
from tests.virtual_time import on_virtual_time


@pytest.mark.parametrize(
    ("method", "path", "verb", "resource"),
    [
        ("GET", "/api/v1/namespaces/team/pods/secret-plan", "get", "pods"),
        ("GET", "/api/v1/namespaces/team/pods", "list", "pods"),
        ("GET", "/api/v1/pods", "list", "pods"),
        ("POST", "/api/v1/namespaces/team/pods", "create", "pods"),
        ("POST", "/api/v1/namespaces/team/pods/secret-plan/binding", "create", "pods/binding"),
        ("DELETE", "/api/v1/namespaces/team/pods/secret-plan", "delete", "pods"),
        ("PATCH", "/apis/x.org/v1/namespaces/team/jobs/secret-plan/status", "patch", "jobs.x.org/status"),
        ("PUT", "/apis/x.org/v1/namespaces/team/jobs/secret-plan", "update", "jobs.x.org"),
        ("GET", "/api/v1/namespaces/team", "get", "namespaces"),
        ("GET", "/api/v1/namespaces", "list", "namespaces"),
        ("GET", "/api/v1/nodes/secret-plan", "get", "nodes"),
        ("GET", "/version", "get", "other"),
        ("GET", "/apis/x.org/v1", "get", "other"),
        ("GET", "/", "get", "other"),
    ],
)
def test_a_call_is_named_without_what_users_named(method: str, path: str, verb: str, resource: str) -> None:
    assert rbac_verb_and_resource(Request(method=method, path=path)) == (verb, resource)
    assert rbac_verb_and_resource(Request(method="GET", path="/api/v1/pods", query={"watch": "true"})) == (
        "watch",
        "pods",
    )


@on_virtual_time
async def test_every_call_is_reported_with_its_answer() -> None:
    calls: list[ApiCallLabels] = []
    async with serving() as served:
        clock = asyncio.get_running_loop().time
        client = KubeClient(MeteredTransport(served.transport, lambda call, _: calls.append(call), clock))
        await client.create(PODS, "default", pod("a"))
        with suppress(NotFound):
            await client.get(PODS, "default", "b")
        listing = await client.list(NAMESPACES)
        watch = client.watch(PODS, resource_version=str(int(listing.resource_version) - 1))
        await anext(watch)
        await watch.aclose()
    assert calls == [
        ("create", "pods", "201"),
        ("get", "pods", "404"),
        ("list", "namespaces", "200"),
        ("watch", "pods", "200"),
    ]


async def test_no_answer_is_reported_too() -> None:
    calls: list[tuple[ApiCallLabels, float]] = []

    class Nobody:
        async def send(self, request: Request) -> Reply:
            raise Unreachable("connection refused")

        def stream(self, request: Request) -> Reply:
            raise Unreachable("connection refused")

        async def aclose(self) -> None:
            """Nothing is held."""

    ticks = iter((1.0, 3.5, 10.0, 10.5))
    transport = MeteredTransport(Nobody(), lambda *call: calls.append(call), lambda: next(ticks))  # type: ignore[arg-type]
    client = KubeClient(transport)
    with pytest.raises(Unreachable):
        await client.delete(PODS, "default", "a")
    with pytest.raises(Unreachable):
        await anext(client.watch(PODS, resource_version="1"))
    assert calls == [(ApiCallLabels("delete", "pods", "none"), 2.5), (ApiCallLabels("watch", "pods", "none"), 0.5)]
