"""Reading objects: selectors, pages, tables, and what the server tells of itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from pliant.embedded.storage.store import Store
from pliant.errors import BadRequest, Gone, ServerError
from pliant.kube.resources import CONFIG_MAPS, EVENTS, PODS
from pliant.kube.transport.base import Request, StreamReply
from tests.embedded.serving import WIDGETS, Served, config, create_widget_crd, pod, serving, widget
from tests.virtual_time import on_virtual_time, passing

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1,application/json"


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving() as server:
        yield server


async def names(server: Served, **query: str) -> list[str]:
    _, content = await server.call("GET", PODS.path("default"), **query)
    return [item["metadata"]["name"] for item in content["items"]]


async def test_labels_and_fields_select(server: Served) -> None:
    await server.client.create(PODS, "default", pod("a", labels={"tier": "x"}))
    await server.client.create(PODS, "default", pod("b", labels={"tier": "y"}))
    bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "b"}, "target": {"name": "n"}}
    await server.client.create(PODS, "default", bind, subresource="binding", name="b")
    assert await names(server, labelSelector="tier in (x,z)") == ["a"]
    assert await names(server, fieldSelector="spec.nodeName=n") == ["b"]
    assert await names(server, fieldSelector="spec.nodeName=,status.phase=Pending") == ["a"]
    assert await names(server, fieldSelector="metadata.name!=a") == ["b"]
    assert await names(server, fieldSelector="spec.restartPolicy=Always") == ["a", "b"]
    with pytest.raises(BadRequest, match=r"field label not supported: spec.image"):
        await server.client.list(PODS, "default", fields="spec.image=x")


async def test_pages_show_the_cluster_as_it_was_at_the_first(server: Served) -> None:
    for name in "abcde":
        await server.client.create(CONFIG_MAPS, "default", config(name))
    _, first = await server.call("GET", CONFIG_MAPS.path("default"), limit="2")
    assert first["metadata"]["remainingItemCount"] == 3
    await server.client.delete(CONFIG_MAPS, "default", "c")
    await server.client.create(CONFIG_MAPS, "default", config("cc"))
    await server.client.patch(CONFIG_MAPS, "default", "d", {"data": {"x": "new"}})
    token = first["metadata"]["continue"]
    _, second = await server.call("GET", CONFIG_MAPS.path("default"), limit="2", **{"continue": token})
    assert [item["metadata"]["name"] for item in second["items"]] == ["c", "d"]
    assert "data" not in second["items"][1]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    token = second["metadata"]["continue"]
    _, third = await server.call("GET", CONFIG_MAPS.path("default"), **{"continue": token})
    assert [item["metadata"]["name"] for item in third["items"]] == ["e"]
    assert "continue" not in third["metadata"]


async def test_a_page_whose_past_is_forgotten_has_expired() -> None:
    async with serving(Store.in_memory(max_history=4)) as server:
        for name in "ab":
            await server.client.create(CONFIG_MAPS, "default", config(name))
        _, first = await server.call("GET", CONFIG_MAPS.path("default"), limit="1")
        for number in range(8):
            await server.client.patch(CONFIG_MAPS, "default", "a", {"data": {"x": str(number)}})
        token = first["metadata"]["continue"]
        reply, status = await server.call("GET", CONFIG_MAPS.path("default"), **{"continue": token})
        assert (reply.status, status["reason"]) == (410, "Expired")
        reply, status = await server.call("GET", CONFIG_MAPS.path("default"), **{"continue": "x"})
        assert (reply.status, status["message"]) == (400, "continue key is not valid")


async def test_a_version_from_the_future_is_not_served(server: Served) -> None:
    with pytest.raises(ServerError, match="Too large resource version: 999999"):
        await server.client.get_raw(f"{PODS.path('default')}?resourceVersion=999999")
    reply, _ = await server.call("GET", PODS.path("default"), resourceVersion="0")
    assert reply.status == 200
    with pytest.raises(Gone):
        async for _ in server.client.watch(PODS, resource_version="999999"):
            pass


async def test_large_lists_are_streamed_and_read_as_one(server: Served) -> None:
    for number in range(40):
        await server.client.create(CONFIG_MAPS, "default", config(f"c{number:02}", data={"x": "y" * 20_000}))
    answer = await server.api.handle(Request(method="GET", path=CONFIG_MAPS.path("default")))
    assert isinstance(answer, StreamReply)
    pieces = [piece async for piece in answer.chunks]
    assert len(pieces) > 2
    assert max(map(len, pieces)) < 300_000
    listing = await server.client.list(CONFIG_MAPS, "default")
    assert [item["metadata"]["name"] for item in listing.items] == [f"c{number:02}" for number in range(40)]
    assert listing.resource_version == str(server.api.store.committed.version)


async def test_tables_are_made_when_asked_for(server: Served) -> None:
    await create_widget_crd(server)
    await server.client.create(WIDGETS, "default", widget("a", size=3))
    _, table = await server.call("GET", WIDGETS.path("default"), accept=TABLE, limit="500")
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]][:2] == ["Name", "Size"]
    assert table["rows"][0]["cells"][:2] == ["a", 3]
    assert table["metadata"]["resourceVersion"] == str(server.api.store.committed.version)
    _, one = await server.call("GET", WIDGETS.path("default", "a"), accept=TABLE)
    assert [row["cells"][0] for row in one["rows"]] == ["a"]
    wanted = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    _, partial = await server.call("GET", WIDGETS.path("default"), accept=wanted)
    assert [sorted(item) for item in partial["items"]] == [["apiVersion", "kind", "metadata"]]


async def test_the_server_says_what_it_serves(server: Served) -> None:
    reply, _ = await server.call("GET", "/healthz")
    assert reply.body == b"ok"
    _, version = await server.call("GET", "/version/")
    assert (version["minor"], version["gitVersion"]) == ("37", "v1.37.1+pliant")
    _, groups = await server.call("GET", "/apis")
    assert "example.org" not in [group["name"] for group in groups["groups"]]
    await create_widget_crd(server)
    _, groups = await server.call("GET", "/apis")
    assert "example.org" in [group["name"] for group in groups["groups"]]
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    reply, content = await server.call("GET", "/apis", accept=accept)
    assert reply.content_type.endswith("v=v2;as=APIGroupDiscoveryList")
    assert content["kind"] == "APIGroupDiscoveryList"
    _, index = await server.call("GET", "/openapi/v3")
    assert "apis/example.org/v1" in index["paths"]
    _, document = await server.call("GET", "/openapi/v3/apis/example.org/v1", hash="whatever")
    assert document["openapi"].startswith("3.")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/api/v1/gadgets", 404),
        ("GET", "/apis/none.org/v1", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/pods/a", 404),
        ("GET", "/api/v1/namespaces/default/pods/a/exec", 400),
        ("GET", "/api/v1/namespaces/default/pods/a/nonsense", 404),
        ("POST", "/api/v1/pods", 405),
        ("PUT", "/api/v1/namespaces/default/pods", 405),
        ("POST", "/api/v1/namespaces/default/pods/a", 405),
        ("DELETE", "/api/v1/namespaces/default/pods/a/status", 405),
        ("GET", "/api/v1/namespaces/default", 200),
        ("GET", "/api/v1/namespaces/default/pods", 200),
        ("GET", "/api/v1/pods/", 200),
    ],
)
async def test_paths_mean_what_they_mean_in_kubernetes(server: Served, method: str, path: str, status: int) -> None:
    reply, _ = await server.call(method, path, {})
    assert reply.status == status


async def test_options_that_cannot_be_read_are_bad_requests(server: Served) -> None:
    for query in ({"watch": "maybe"}, {"limit": "many"}, {"labelSelector": "=="}, {"resourceVersion": "x"}):
        reply, status = await server.call("GET", PODS.path("default"), **query)
        assert (reply.status, status["reason"]) == (400, "BadRequest"), query


async def test_the_client_may_ask_what_it_may_do(server: Served) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}}
    reply, answer = await server.call("POST", path, review)
    assert (reply.status, answer["status"]["allowed"]) == (201, True)
    _, who = await server.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert who["status"]["userInfo"]["username"] == "kubernetes-admin"


@on_virtual_time
async def test_events_are_forgotten_an_hour_after_they_were_last_written() -> None:
    async with serving() as server:
        for name in ("old", "renewed"):
            event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": {}}
            await server.client.create(EVENTS, "default", event)
        await passing(timedelta(minutes=50))
        await server.client.patch(EVENTS, "default", "renewed", {"count": 2})
        await passing(timedelta(minutes=20))
        assert [item["metadata"]["name"] for item in (await server.client.list(EVENTS)).items] == ["renewed"]
        await passing(timedelta(minutes=60))
        assert (await server.client.list(EVENTS)).items == []


async def test_events_are_found_by_what_they_are_about(server: Served) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "a", "uid": "u"}
    for number, uid in enumerate(["u", "other"]):
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"e{number}"}}
        await server.client.create(EVENTS, "default", event | {"involvedObject": about | {"uid": uid}, "reason": "R"})
    fields = "involvedObject.name=a,involvedObject.namespace=default,involvedObject.kind=Pod,involvedObject.uid=u"
    found = await server.client.list(EVENTS, "default", fields=fields)
    assert [item["metadata"]["name"] for item in found.items] == ["e0"]
