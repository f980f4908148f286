"""Watches: everything once, in order, seen through a selector, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from pliant.embedded.storage.store import Store
from pliant.kube.resources import CONFIG_MAPS, PODS, Resource
from pliant.kube.transport.base import JSON_CONTENT_TYPE, Request
from tests.embedded.serving import Served, config, pod, serving
from tests.virtual_time import on_virtual_time

EventSummaries = list[tuple[str, str]]


@asynccontextmanager
async def open_watch(
    server: Served, resource: Resource = CONFIG_MAPS, accept: str = JSON_CONTENT_TYPE, **query: Any
) -> AsyncIterator[list[dict[str, Any]]]:
    """Collects what a watch says while the block runs."""
    lines: list[dict[str, Any]] = []
    request = Request(method="GET", path=resource.path("default"), query={"watch": "1", **query}, accept=accept)

    async def read() -> None:
        async with server.transport.stream(request) as reply:
            assert reply.status == 200
            async for chunk in reply.chunks:
                lines.extend(msgspec.json.decode(line) for line in chunk.splitlines())

    reading = asyncio.create_task(read())
    try:
        yield lines
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def event_summaries(lines: list[dict[str, Any]]) -> EventSummaries:
    return [(line["type"], line["object"]["metadata"].get("name", "")) for line in lines]


def version(server: Served) -> str:
    return str(server.api.store.committed.version)


async def let_watch_run() -> None:
    await asyncio.sleep(0.001)


@on_virtual_time
async def test_a_watch_tells_every_change_after_its_version() -> None:
    async with serving() as server:
        await server.client.create(CONFIG_MAPS, "default", config("before"))
        since = version(server)
        await server.client.create(CONFIG_MAPS, "default", config("a"))
        async with open_watch(server, resourceVersion=since) as lines:
            await let_watch_run()
            await server.client.patch(CONFIG_MAPS, "default", "a", {"data": {"x": "y"}})
            await server.client.create(CONFIG_MAPS, "kube-system", config("elsewhere"))
            await server.client.create(PODS, "default", pod("other-kind"))
            await server.client.delete(CONFIG_MAPS, "default", "a")
            await let_watch_run()
            assert event_summaries(lines) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
            versions = [int(line["object"]["metadata"]["resourceVersion"]) for line in lines]
            assert versions == sorted(versions)
            assert versions[-1] == int(version(server))


@on_virtual_time
async def test_a_watch_without_a_version_begins_with_what_is_there() -> None:
    async with serving() as server:
        await server.client.create(CONFIG_MAPS, "default", config("a"))
        async with open_watch(server) as lines:
            await let_watch_run()
            await server.client.create(CONFIG_MAPS, "default", config("b"))
            await let_watch_run()
            assert event_summaries(lines) == [("ADDED", "a"), ("ADDED", "b")]


@on_virtual_time
async def test_initial_events_end_with_a_bookmark_that_says_so() -> None:
    async with serving() as server:
        await server.client.create(CONFIG_MAPS, "default", config("a"))
        wish = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        async with open_watch(server, CONFIG_MAPS, **wish) as lines:
            await let_watch_run()
            assert event_summaries(lines) == [("ADDED", "a"), ("BOOKMARK", "")]
            assert lines[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            assert lines[1]["object"]["metadata"]["resourceVersion"] == version(server)


@on_virtual_time
async def test_an_object_that_leaves_the_selection_is_deleted_for_its_watchers() -> None:
    async with serving() as server:
        made = await server.client.create(PODS, "default", pod("a", labels={"tier": "x"}))
        await server.client.create(PODS, "default", pod("b", labels={"tier": "y"}))
        async with open_watch(server, PODS, resourceVersion=version(server), labelSelector="tier=x") as lines:
            await let_watch_run()
            await server.client.patch(PODS, "default", "a", {"metadata": {"labels": {"tier": "y"}}})
            await server.client.patch(PODS, "default", "b", {"metadata": {"labels": {"tier": "x"}}})
            await server.client.patch(PODS, "default", "a", {"metadata": {"annotations": {"n": "1"}}})
            await server.client.delete(PODS, "default", "a")
            await let_watch_run()
            assert event_summaries(lines) == [("DELETED", "a"), ("ADDED", "b")]
            left = lines[0]["object"]["metadata"]
            assert left["labels"] == {"tier": "x"}
            assert int(left["resourceVersion"]) == int(made["metadata"]["resourceVersion"]) + 2


@on_virtual_time
async def test_a_watch_by_field_follows_pods_to_their_node() -> None:
    async with serving() as server:
        await server.client.create(PODS, "default", pod("a"))
        async with open_watch(server, PODS, fieldSelector="spec.nodeName=n", resourceVersion=version(server)) as lines:
            await let_watch_run()
            bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "n"}}
            await server.client.create(PODS, "default", bind, subresource="binding", name="a")
            await let_watch_run()
            assert event_summaries(lines) == [("ADDED", "a")]


@on_virtual_time
async def test_bookmarks_come_every_minute_and_at_the_end() -> None:
    async with serving() as server:
        wish = {"resourceVersion": version(server), "allowWatchBookmarks": "true", "timeoutSeconds": "150"}
        async with open_watch(server, CONFIG_MAPS, **wish) as lines:
            await asyncio.sleep(10)
            await server.client.create(PODS, "default", pod("other-kind"))
            await asyncio.sleep(51)
            assert event_summaries(lines) == [("BOOKMARK", "")]
            assert lines[0]["object"]["metadata"]["resourceVersion"] == version(server)
            await asyncio.sleep(600)
            assert event_summaries(lines) == [("BOOKMARK", "")] * 3


@on_virtual_time
async def test_a_watch_ends_when_its_time_is_over() -> None:
    async with serving() as server:
        request = Request(method="GET", path="/api/v1/pods", query={"watch": "true", "timeoutSeconds": "5"})
        before = asyncio.get_running_loop().time()
        reply = await server.transport.send(request)
        assert reply.body == b""
        assert asyncio.get_running_loop().time() - before == 5


@on_virtual_time
async def test_a_watcher_too_slow_for_the_history_is_told_to_list_again() -> None:
    async with serving(Store.in_memory(max_history=4)) as server:
        await server.client.create(CONFIG_MAPS, "default", config("a"))
        query = {"watch": "true", "resourceVersion": version(server)}
        async with server.transport.stream(Request(method="GET", path="/api/v1/configmaps", query=query)) as reply:
            await server.client.patch(CONFIG_MAPS, "default", "a", {"data": {"x": "first"}})
            first = await anext(reply.chunks)
            assert b"MODIFIED" in first
            for number in range(8):
                await server.client.patch(CONFIG_MAPS, "default", "a", {"data": {"x": str(number)}})
            last = [msgspec.json.decode(chunk) async for chunk in reply.chunks]
        assert [line["type"] for line in last] == ["ERROR"]
        assert (last[0]["object"]["code"], last[0]["object"]["reason"]) == (410, "Expired")
        reply_now, status = await server.call("GET", "/api/v1/configmaps", **query)
        assert (reply_now.status, status["reason"]) == (410, "Expired")


@on_virtual_time
async def test_a_watch_for_kubectl_speaks_in_tables() -> None:
    async with serving() as server:
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        async with open_watch(server, PODS, accept=accept, resourceVersion=version(server)) as lines:
            await let_watch_run()
            await server.client.create(PODS, "default", pod("a"))
            await let_watch_run()
            assert [(line["type"], line["object"]["kind"]) for line in lines] == [("ADDED", "Table")]
            assert lines[0]["object"]["rows"][0]["cells"][0] == "a"


@on_virtual_time
async def test_watchers_cost_writers_nothing_and_leave_nothing_behind() -> None:
    async with serving() as server:
        for _ in range(3):
            async with open_watch(server, resourceVersion=version(server)):
                await let_watch_run()
        assert server.api.store.committed.history("/configmaps")._waiting == set()
