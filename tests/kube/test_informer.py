from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from pliant.kube.cache.informer import Informer
from pliant.kube.client import WATCH_IDLE_TIMEOUT_SECONDS, KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS
from pliant.kube.transport.base import Reply, Request, StreamReply
from tests.kube.toy_server import ENDS, LOST, ToyServer, line, status
from tests.virtual_time import on_virtual_time, passing, quiet

SECOND = timedelta(seconds=1)


def names(informer: Informer[Pod]) -> set[str]:
    return {pod.metadata.name for pod in informer.store.all()}


@asynccontextmanager
async def following(server: ToyServer, **options: Any) -> AsyncIterator[Informer[Pod]]:
    informer = Informer(KubeClient(server), PODS, Pod, rng=random.Random(1), **options)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(informer.run())
        await informer.wait_synced()
        await quiet()
        yield informer
        task.cancel()


@on_virtual_time
async def test_a_store_holds_what_was_there_and_what_came_later() -> None:
    server = ToyServer()
    server.put("old")
    async with following(server) as informer:
        server.put("new")
        await quiet()
        assert names(informer) == {"old", "new"}
        server.delete("old")
        await quiet()
        assert names(informer) == {"new"}
        assert (informer.list_count, informer.watch_count) == (1, 1)


@on_virtual_time
async def test_a_watch_asks_for_bookmarks_and_an_end() -> None:
    server = ToyServer()
    async with following(server, namespace="default", labels="a=b", fields="c=d"):
        request = server.asked(watches=True)[0]
    assert request.path == "/api/v1/namespaces/default/pods"
    assert request.timeout is None
    assert request.query["allowWatchBookmarks"] == "true"
    assert int(request.query["timeoutSeconds"]) < WATCH_IDLE_TIMEOUT_SECONDS
    assert (request.query["labelSelector"], request.query["fieldSelector"]) == ("a=b", "c=d")


@on_virtual_time
async def test_a_watch_that_ends_in_order_goes_on_from_the_last_event_without_a_list() -> None:
    server = ToyServer()
    async with following(server) as informer:
        await passing(60 * SECOND)
        last = server.put("a")["metadata"]["resourceVersion"]
        await quiet()
        server.end_watches()
        server.put("b")
        await quiet()
        assert names(informer) == {"a", "b"}
        assert server.asked(watches=True)[-1].query["resourceVersion"] == last
        assert informer.list_count == 1


@on_virtual_time
async def test_a_short_watch_that_told_something_is_opened_again_at_once() -> None:
    server = ToyServer()
    async with following(server) as informer:
        for number in range(5):
            server.put(f"pod-{number}")
            await quiet()
            server.end_watches()
            await quiet()
            assert informer.watch_count == number + 2
        assert informer.list_count == 1


@on_virtual_time
async def test_an_idle_watch_that_ends_after_its_time_is_opened_again_at_once() -> None:
    server = ToyServer()
    async with following(server) as informer:
        for _ in range(5):
            await passing(290 * SECOND)
            server.end_watches()
            await quiet()
            assert server.open_watches == 1
        assert informer.list_count == 1


@on_virtual_time
async def test_a_bookmark_moves_the_point_to_resume_from() -> None:
    server = ToyServer()
    async with following(server) as informer:
        server.pass_unseen(1000)
        server.bookmark()
        await quiet()
        server.forget_history()
        server.end_watches(LOST)
        await passing(SECOND)
        assert server.asked(watches=True)[-1].query["resourceVersion"] == str(server.version)
        assert informer.list_count == 1


@on_virtual_time
async def test_a_connection_lost_in_the_middle_of_a_line_loses_nothing() -> None:
    server = ToyServer()
    async with following(server) as informer:
        server.end_watches(LOST, half_a_line=True)
        server.put("a")
        await passing(SECOND)
        assert names(informer) == {"a"}
        assert informer.list_count == 1


@on_virtual_time
async def test_gone_on_opening_lists_again_and_drops_what_was_deleted_meanwhile() -> None:
    server = ToyServer()
    server.put("stays")
    server.put("goes")
    seen: list[tuple[str | None, str | None]] = []

    def note(old: Pod | None, new: Pod | None) -> None:
        seen.append((old.metadata.name if old else None, new.metadata.name if new else None))

    async with following(server, on_change=note) as informer:
        seen.clear()
        server.end_watches(LOST)
        server.delete("goes")
        server.put("comes")
        server.forget_history()
        await passing(5 * SECOND)
        assert names(informer) == {"stays", "comes"}
        assert seen == [(None, "comes"), ("goes", None)]
        assert informer.list_count == 2


@on_virtual_time
async def test_gone_within_a_stream_lists_again() -> None:
    server = ToyServer()
    server.put("goes")
    async with following(server) as informer:
        server.say_in_stream(line("ERROR", status(410, "Expired")))
        server.end_watches()
        server.delete("goes")
        server.forget_history()
        await passing(SECOND)
        assert names(informer) == set()
        assert informer.list_count == 2


@on_virtual_time
async def test_a_server_that_always_says_gone_is_asked_ever_less_often() -> None:
    server = ToyServer()
    server.put("a")
    async with following(server) as informer:
        server.oldest = 10**9
        server.end_watches(LOST)
        await passing(600 * SECOND)
        assert 10 < informer.list_count < 40


@on_virtual_time
async def test_a_server_that_ends_every_watch_at_once_is_asked_ever_less_often() -> None:
    server = ToyServer()
    async with following(server) as informer:
        ender = asyncio.create_task(_end_watches_at_once(server))
        await passing(600 * SECOND)
        ender.cancel()
        assert 10 < informer.watch_count < 50
        assert informer.list_count == 1


async def _end_watches_at_once(server: ToyServer) -> None:
    while True:
        server.end_watches()
        await passing(timedelta(milliseconds=10))


@on_virtual_time
async def test_an_unreachable_server_is_tried_until_it_answers() -> None:
    server = ToyServer()
    server.put("a")
    async with following(server) as informer:
        server.refusals = [LOST] * 6
        server.end_watches(LOST)
        server.put("b")
        await passing(60 * SECOND)
        assert names(informer) == {"a", "b"}
        assert informer.list_count == 1


@on_virtual_time
async def test_an_overloaded_server_is_given_the_time_it_asks_for() -> None:
    server = ToyServer()
    async with following(server) as informer:
        body = json.dumps(status(429, "TooManyRequests")).encode()
        server.refusals = [Reply(status=429, body=body, headers={"Retry-After": "20"})]
        server.end_watches(LOST)
        await passing(19 * SECOND)
        assert server.open_watches == 0
        await passing(2 * SECOND)
        assert server.open_watches == 1
        assert informer.list_count == 1


@pytest.mark.parametrize(("code", "lists"), [(401, 1), (403, 1), (502, 1), (503, 1), (504, 2), (500, 2), (400, 2)])
@on_virtual_time
async def test_a_server_that_is_away_costs_no_list_but_one_that_refuses_does(code: int, lists: int) -> None:
    server = ToyServer()
    async with following(server) as informer:
        server.refusals = [Reply(status=code, body=b"no")]
        server.end_watches(LOST)
        await passing(5 * SECOND)
        assert server.open_watches == 1
        assert informer.list_count == lists


@on_virtual_time
async def test_a_stream_silent_past_its_end_is_dead() -> None:
    server = ToyServer()
    async with following(server) as informer:
        server._streams.clear()
        server.put("a")
        await passing(timedelta(seconds=WATCH_IDLE_TIMEOUT_SECONDS - 1))
        assert informer.watch_count == 1
        await passing(3 * SECOND)
        assert informer.watch_count == 2
        assert names(informer) == {"a"}


@on_virtual_time
async def test_an_answer_that_cannot_be_read_is_followed_by_a_list() -> None:
    server = ToyServer()
    async with following(server) as informer:
        server.say_in_stream(b'{"type":"MODIFIED","object":{"metadata":{"name":7}}}\n')
        await passing(SECOND)
        assert informer.list_count == 2
        assert "invalid response" not in str(informer.last_error)


@on_virtual_time
async def test_a_new_cluster_in_place_of_the_old_one_is_taken_over_whole() -> None:
    server = ToyServer()
    server.pass_unseen(1000)
    server.put("old")
    async with following(server) as informer:
        server.end_watches(LOST)
        server.start_over()
        server.put("new")
        await passing(SECOND)
        server.bookmark()
        await passing(SECOND)
        assert names(informer) == {"new"}


@on_virtual_time
async def test_before_the_first_list_the_problem_is_known() -> None:
    server = ToyServer()
    server.refusals = [Reply(status=403, body=json.dumps(status(403, "Forbidden", "no right to list")).encode())]
    informer = Informer(KubeClient(server), PODS, Pod)
    task = asyncio.create_task(informer.run())
    await quiet()
    assert "no right to list" in str(informer.last_error)
    await informer.wait_synced()
    assert informer.last_error is None
    task.cancel()


@on_virtual_time
async def test_cancelling_ends_the_stream() -> None:
    server = ToyServer()
    async with following(server):
        assert server.open_watches == 1
    assert server.open_watches == 0


@on_virtual_time
async def test_objects_can_stay_dicts_and_never_carry_managed_fields() -> None:
    server = ToyServer()
    server.put("listed")
    informer = Informer(KubeClient(server), PODS, dict)
    task = asyncio.create_task(informer.run())
    await informer.wait_synced()
    await quiet()
    server.put("watched")
    await quiet()
    for name in ("listed", "watched"):
        pod = informer.store.get("default", name)
        assert pod is not None
        assert "managedFields" not in pod["metadata"]
    task.cancel()


@on_virtual_time
async def test_a_list_may_come_as_the_beginning_of_the_watch() -> None:
    server = ToyServer()
    server.put("a")
    async with following(server, streaming=True) as informer:
        server.put("b")
        await quiet()
        assert names(informer) == {"a", "b"}
        assert (len(server.asked(watches=False)), informer.list_count, informer.watch_count) == (0, 1, 1)
        server.end_watches(LOST)
        server.delete("a")
        server.forget_history()
        await passing(2 * SECOND)
        assert names(informer) == {"b"}
        assert (len(server.asked(watches=False)), informer.list_count) == (0, 2)


@on_virtual_time
async def test_a_server_that_streams_no_lists_is_asked_for_them() -> None:
    server = ToyServer()
    server.put("a")
    server.streams_lists = False
    async with following(server, streaming=True) as informer:
        assert names(informer) == {"a"}
        assert len(server.asked(watches=False)) == 1


@on_virtual_time
async def test_changes_during_a_streamed_list_belong_to_it() -> None:
    server = ToyServer()
    first = server.put("first")
    second = server.put("second")
    end = {"metadata": {"resourceVersion": "150", "annotations": ENDS}}
    text = line("ADDED", first) + line("ADDED", second) + line("DELETED", first) + line("BOOKMARK", end)
    informer = Informer(KubeClient(Canned(text)), PODS, Pod, streaming=True)
    task = asyncio.create_task(informer.run())
    await informer.wait_synced()
    assert (names(informer), informer.store.resource_version) == ({"second"}, 150)
    task.cancel()


@on_virtual_time
async def test_a_server_that_ignores_the_wish_is_noticed() -> None:
    server = ToyServer()
    text = line("ADDED", server.put("a")) + line("BOOKMARK", {"metadata": {"resourceVersion": "150"}})
    canned = Canned(text)
    informer = Informer(KubeClient(canned), PODS, Pod, streaming=True)
    task = asyncio.create_task(informer.run())
    await informer.wait_synced()
    assert canned.lists == 1
    task.cancel()


class Canned:
    """Streams a prepared text, and stays silent; lists are empty."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.lists = 0

    async def send(self, request: Request) -> Reply:
        self.lists += 1
        return Reply(status=200, body=b'{"metadata":{"resourceVersion":"200"}}')

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        yield StreamReply(status=200, chunks=self._chunks())

    async def _chunks(self) -> AsyncIterator[bytes]:
        yield self._text
        await asyncio.Event().wait()

    async def aclose(self) -> None: ...
