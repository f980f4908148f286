from __future__ import annotations

from typing import Any

import pytest

from pliant.errors import Invalid
from pliant.kube.resources import EVENTS, Resource
from tests.embedded.serving import Served, serving

NEWER = Resource("events.k8s.io", "v1", "events", "Event")
REGARDING = {"apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": "default", "uid": "u-1"}


def new_event(name: str = "e", **changes: Any) -> dict[str, Any]:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "regarding": REGARDING,
        "reason": "Restarting",
        "note": "worker-1 exited",
        "type": "Warning",
        "action": "Reconcile",
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "reportingController": "pliant",
        "reportingInstance": "host",
        **changes,
    }
    return {field: value for field, value in event.items() if value is not None}


def core_event(name: str = "o") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": REGARDING,
        "reason": "Pulled",
        "message": "there",
        "type": "Normal",
        "source": {"component": "kubelet"},
        "count": 3,
        "firstTimestamp": "2030-01-01T00:00:00Z",
        "lastTimestamp": "2030-01-01T00:00:00Z",
    }


async def test_an_event_is_one_object_in_two_forms() -> None:
    async with serving() as server:
        await server.client.create(NEWER, "default", new_event(), strict=True)
        await server.client.create(EVENTS, "default", core_event(), strict=True)
        seen = await server.client.get(EVENTS, "default", "e")
        assert (seen["apiVersion"], seen["message"], seen["involvedObject"]) == ("v1", "worker-1 exited", REGARDING)
        assert seen["reportingComponent"] == "pliant"
        assert not {"note", "regarding", "reportingController"} & seen.keys()
        other = await server.client.get(NEWER, "default", "o")
        assert (other["apiVersion"], other["note"], other["deprecatedCount"]) == ("events.k8s.io/v1", "there", 3)
        assert other["deprecatedSource"] == {"component": "kubelet"}
        for resource in (EVENTS, NEWER):
            listed = (await server.client.list(resource, "default")).items
            assert {(e["apiVersion"], e["metadata"]["name"]) for e in listed} == {
                (resource.api_version, "e"),
                (resource.api_version, "o"),
            }


async def test_both_forms_are_watched_and_deleted_alike() -> None:
    async with serving() as server:
        await server.client.create(NEWER, "default", new_event())
        await server.client.delete(NEWER, "default", "e")
        for resource, word in ((EVENTS, "message"), (NEWER, "note")):
            told = []
            async for event in server.client.watch(resource, resource_version="1"):
                assert event.object is not None
                told.append((str(event.type), event.object["apiVersion"], event.object[word]))
                if len(told) == 2:
                    break
            assert told == [
                ("ADDED", resource.api_version, "worker-1 exited"),
                ("DELETED", resource.api_version, "worker-1 exited"),
            ]


async def test_each_form_is_selected_by_its_own_words() -> None:
    async with serving() as server:
        await server.client.create(NEWER, "default", new_event())
        await server.client.create(EVENTS, "default", core_event())
        for resource, fields in (
            (EVENTS, "involvedObject.uid=u-1,reason=Restarting"),
            (NEWER, "regarding.uid=u-1,reason=Restarting"),
            (NEWER, "reportingController=pliant"),
        ):
            found = (await server.client.list(resource, fields=fields)).items
            assert [event["metadata"]["name"] for event in found] == ["e"]


async def test_repetition_is_counted_and_shown_to_kubectl() -> None:
    async with serving() as server:
        await server.client.create(NEWER, "default", new_event())
        series = {"count": 7, "lastObservedTime": "2030-01-01T00:10:00.000000Z"}
        patched = await server.client.patch(NEWER, "default", "e", {"series": series})
        assert (patched["series"], patched["note"]) == (series, "worker-1 exited")
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        _, shown = await server.call("GET", EVENTS.path("default"), accept=table)
        named = dict(zip((c["name"] for c in shown["columnDefinitions"]), shown["rows"][0]["cells"], strict=True))
        assert (named["Count"], named["Message"], named["Source"]) == (7, "worker-1 exited", "pliant, host")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"eventTime": None}, "eventTime"),
        ({"reportingController": ""}, "reportingController"),
        ({"reportingInstance": None}, "reportingInstance"),
        ({"action": None}, "action"),
        ({"reason": "x" * 129}, "reason"),
        ({"note": "x" * 1025}, "message"),
        ({"type": "Odd"}, "type"),
        ({"deprecatedCount": 1}, "count"),
        ({"note": "x", "reportingController": "a b"}, "reportingController"),
        ({"series": {"count": 1, "lastObservedTime": "2030-01-01T00:00:00.000000Z"}}, "series.count"),
        ({"series": {"count": 2}}, "series.lastObservedTime"),
    ],
)
async def test_an_event_of_the_newer_form_tells_everything(changes: dict[str, Any], field: str) -> None:
    async with serving() as server:
        with pytest.raises(Invalid, match=field):
            await server.client.create(NEWER, "default", new_event(**changes))


async def test_what_an_event_said_cannot_be_changed() -> None:
    async with serving() as server:
        await server.client.create(NEWER, "default", new_event())
        for patch in ({"note": "other"}, {"regarding": {"uid": "u-2"}}, {"reason": "Other"}):
            with pytest.raises(Invalid, match="immutable"):
                await server.client.patch(NEWER, "default", "e", patch)


async def test_the_group_is_discovered_and_described() -> None:
    async with serving() as server:
        _, groups = await server.call("GET", "/apis")
        assert "events.k8s.io" in {group["name"] for group in groups["groups"]}
        _, resources = await server.call("GET", "/apis/events.k8s.io/v1")
        assert [entry["name"] for entry in resources["resources"]] == ["events"]
        assert await _schema_fields(server) >= {"regarding", "note", "series", "reportingController"}


async def _schema_fields(server: Served) -> set[str]:
    _, document = await server.call("GET", "/openapi/v3/apis/events.k8s.io/v1")
    return set(document["components"]["schemas"]["io.k8s.api.events.v1.Event"]["properties"])
