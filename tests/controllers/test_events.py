from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from pliant.controllers.events import (
    COUNT_UPDATE_INTERVAL_SECONDS,
    DUPLICATE_WINDOW_SECONDS,
    EVENT_BURST,
    EVENTS_RESOURCE,
    MESSAGE_ANNOTATION,
    SUPPRESSED_MESSAGE,
    TOKEN_REFILL_SECONDS,
    EventRecorder,
)
from pliant.errors import Unreachable
from pliant.kube.client import KubeClient
from pliant.kube.resources import EVENTS as OLDER
from pliant.kube.transport.base import Reply, Request
from pliant.model.actions import EmitEvent
from pliant.model.job import Owner
from tests.builders import saying
from tests.embedded.serving import Served, serving
from tests.scenarios.messages import message_of
from tests.virtual_time import VirtualClock, on_virtual_time, passing, quiet

OWNER = Owner(api_version="elasticdeeplearning.ai/v1", kind="AITrainingJob", name="bert", uid="u-1")


def said(message: str, reason: str = "Restarting") -> EmitEvent:
    return EmitEvent(reason=reason, message=saying(message), is_warning=True)


class Counting:
    """A line to the server that keeps the writes, and can be cut."""

    def __init__(self, served: Served) -> None:
        self._inner = served.transport
        self.stream = self._inner.stream
        self.aclose = self._inner.aclose
        self.writes: list[str] = []
        self.is_cut = False
        self.is_stuck = False

    async def send(self, request: Request) -> Reply:
        if request.method != "GET":
            self.writes.append(request.method)
        if self.is_stuck:
            await asyncio.Event().wait()
        if self.is_cut:
            raise Unreachable("cut")
        return await self._inner.send(request)


class Told:
    """A recorder at work, and what the server has of it."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.line = Counting(served)
        self.recorder = EventRecorder(KubeClient(self.line), VirtualClock(), "here")

    def tell(self, message: str, reason: str = "Restarting", owner: Owner = OWNER) -> None:
        self.recorder.emit(owner, "default", said(message, reason))

    async def events(self) -> dict[str, dict[str, Any]]:
        await quiet()
        return {event["note"]: event for event in (await self.served.client.list(EVENTS_RESOURCE, "default")).items}


@asynccontextmanager
async def recording() -> AsyncIterator[Told]:
    async with serving() as served:
        told = Told(served)
        async with told.recorder.run_in_background():
            yield told


def count(event: dict[str, Any]) -> int:
    return int(event.get("series", {}).get("count", 1))


@on_virtual_time
async def test_an_event_is_found_where_kubectl_looks() -> None:
    async with recording() as told:
        told.tell("worker-1 exited with 137")
        await quiet()
        about = "involvedObject.kind=AITrainingJob,involvedObject.name=bert,involvedObject.uid=u-1"
        [event] = (await told.served.client.list(OLDER, "default", fields=about)).items
        assert (event["reason"], event["type"]) == ("Restarting", "Warning")
        assert (event["message"], event["reportingComponent"]) == ("worker-1 exited with 137", "pliant")
        assert event["eventTime"] == "2030-01-01T00:00:00.000000Z"
        message = json.loads(event["metadata"]["annotations"][MESSAGE_ANNOTATION])
        assert message == {"reason": "EndRequested", "parameters": {"message": "worker-1 exited with 137"}}


@on_virtual_time
async def test_saying_it_again_at_once_is_no_news() -> None:
    async with recording() as told:
        for _ in range(5):
            told.tell("again")
        await passing(timedelta(minutes=5))
        assert count((await told.events())["again"]) == 1
        assert told.line.writes == ["POST"]


@on_virtual_time
async def test_repetition_is_counted_in_memory_and_told_now_and_then() -> None:
    async with recording() as told:
        for _ in range(10):
            told.tell("again")
            await passing(timedelta(seconds=DUPLICATE_WINDOW_SECONDS))
        assert told.line.writes == ["POST"]
        await passing(timedelta(seconds=COUNT_UPDATE_INTERVAL_SECONDS))
        event = (await told.events())["again"]
        assert count(event) == 10
        assert event["series"]["lastObservedTime"] == "2030-01-01T00:00:18.000000Z"
        assert told.line.writes == ["POST", "PATCH"]
        told.tell("again")
        await quiet()
        assert count((await told.events())["again"]) == 10
        await passing(timedelta(seconds=COUNT_UPDATE_INTERVAL_SECONDS))
        assert count((await told.events())["again"]) == 11
        await passing(timedelta(minutes=10))
        assert told.line.writes == ["POST", "PATCH", "PATCH"]


@on_virtual_time
async def test_after_a_crash_the_same_thing_meets_its_first_telling() -> None:
    async with serving() as served:
        for life in range(3):
            told = Told(served)
            async with told.recorder.run_in_background():
                told.tell("once")
                await quiet()
                assert told.line.writes == ["POST"], life
        assert count((await told.events())["once"]) == 1


@on_virtual_time
async def test_the_count_goes_on_where_the_last_life_left_it() -> None:
    async with serving() as served:
        for total in (3, 5, 7):
            told = Told(served)
            async with told.recorder.run_in_background():
                for _ in range(3):
                    told.tell("again")
                    await passing(timedelta(seconds=COUNT_UPDATE_INTERVAL_SECONDS))
                await passing(timedelta(seconds=COUNT_UPDATE_INTERVAL_SECONDS))
                assert count((await told.events())["again"]) == total


@on_virtual_time
async def test_a_flood_is_held_back_and_counted() -> None:
    async with recording() as told:
        for number in range(200):
            told.tell(f"restart {number}")
            await passing(timedelta(milliseconds=100))
        await passing(timedelta(seconds=COUNT_UPDATE_INTERVAL_SECONDS))
        events = await told.events()
        alone = EVENT_BURST + int(20 / TOKEN_REFILL_SECONDS)
        assert len(events) in (alone, alone + 1)
        [held] = [event for event in events.values() if message_of(event) == SUPPRESSED_MESSAGE]
        assert count(held) == 200 - (len(events) - 1)
        assert len(told.line.writes) <= len(events) + 3


@on_virtual_time
async def test_a_flood_of_one_object_holds_no_other_back() -> None:
    async with recording() as told:
        for number in range(50):
            told.tell(f"restart {number}")
        told.tell("quiet one", owner=Owner(api_version="v1", kind="Pod", name="other", uid="u-2"))
        assert "quiet one" in await told.events()


@on_virtual_time
async def test_each_kind_of_news_that_is_held_back_has_its_own_count() -> None:
    async with recording() as told:
        for number in range(EVENT_BURST + 4):
            told.tell(f"a {number}", "Alpha")
        for number in range(3):
            told.tell(f"b {number}", "Beta")
        await passing(timedelta(seconds=COUNT_UPDATE_INTERVAL_SECONDS * 2))
        held = {
            event["reason"]: count(event)
            for event in (await told.served.client.list(EVENTS_RESOURCE, "default")).items
            if message_of(event) == SUPPRESSED_MESSAGE
        }
        assert held == {"Alpha": 4, "Beta": 3}


@on_virtual_time
async def test_a_server_that_is_away_is_told_later() -> None:
    async with recording() as told:
        told.line.is_cut = True
        told.tell("news")
        await passing(timedelta(seconds=4))
        assert await told.events() == {}
        told.line.is_cut = False
        await passing(timedelta(seconds=4))
        assert set(await told.events()) == {"news"}


@on_virtual_time
async def test_what_cannot_be_told_is_dropped_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async with recording() as told:
        told.recorder.emit(OWNER, "nowhere", said("lost"))
        told.line.is_cut = True
        told.tell("lost too")
        await passing(timedelta(minutes=5))
        told.line.is_cut = False
        told.tell("heard")
        assert set(await told.events()) == {"heard"}
    assert "event not written" in caplog.text


@on_virtual_time
async def test_an_event_that_the_server_forgot_is_told_anew() -> None:
    async with recording() as told:
        told.tell("again")
        await quiet()
        for event in (await told.events()).values():
            await told.served.client.delete(EVENTS_RESOURCE, "default", event["metadata"]["name"])
        await passing(timedelta(hours=1))
        told.tell("again")
        assert count((await told.events())["again"]) == 2


@on_virtual_time
async def test_telling_never_waits() -> None:
    async with recording() as told:
        told.line.is_stuck = True
        for number in range(10_000):
            told.recorder.emit(
                Owner(api_version="v1", kind="Pod", name=f"p-{number}", uid=str(number)), "default", said("x")
            )
        assert asyncio.get_running_loop().time() == 0


@on_virtual_time
async def test_last_words_are_written_but_not_waited_for_without_end() -> None:
    async with serving() as served:
        told = Told(served)
        async with told.recorder.run_in_background():
            told.tell("the end")
        assert set(await told.events()) == {"the end"}
        told.line.is_stuck = True
        began = asyncio.get_running_loop().time()
        async with told.recorder.run_in_background():
            told.tell("unheard")
        assert asyncio.get_running_loop().time() - began < 5


@on_virtual_time
async def test_a_long_message_is_cut_to_what_an_event_may_hold() -> None:
    async with recording() as told:
        told.tell("é" * 2000)
        [note] = await told.events()
        assert note == "é" * 512
