"""Which representation a client gets; the cases have the answers of kube-apiserver 1.36.3."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from pliant.embedded.apiserver.http.negotiation import AcceptedFormat, Representation, accepted_format
from pliant.embedded.apiserver.protobuf.decoder import decode_protobuf
from pliant.embedded.apiserver.protobuf.encoder import encode_protobuf
from pliant.embedded.apiserver.protobuf.wire import iter_fields
from pliant.kube.resources import CONFIG_MAPS, PODS
from pliant.kube.transport.base import Reply, Request, StreamReply
from tests.embedded.serving import Served, config, create_widget_crd, pod, serving, widget

JSON, YAML, PROTOBUF = Representation.JSON, Representation.YAML, Representation.PROTOBUF
META = ";v=v1;g=meta.k8s.io"
MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.org/v1/namespaces/default/widgets"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", (JSON, "")),
        ("*/*", (JSON, "")),
        ("application/json", (JSON, "")),
        ("application/yaml", (YAML, "")),
        ("application/json;q=0.1, application/yaml", (YAML, "")),
        ("application/vnd.kubernetes.protobuf", (PROTOBUF, "")),
        ("application/vnd.kubernetes.protobuf;stream=watch", (PROTOBUF, "")),
        ("application/vnd.kubernetes.protobuf,application/json", (JSON, "")),
        ("application/vnd.kubernetes.protobuf, */*", (JSON, "")),
        (f"application/json;as=Table{META},application/json", (JSON, "Table")),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", (JSON, "")),
        (f"application/yaml;as=Table{META}", (YAML, "Table")),
        (f"{PROTOBUF};as=PartialObjectMetadata{META}", (PROTOBUF, "PartialObjectMetadata")),
        (
            f"{PROTOBUF};as=PartialObjectMetadata{META},{JSON};as=PartialObjectMetadata{META},{JSON}",
            (JSON, "PartialObjectMetadata"),
        ),
        (f"{PROTOBUF};as=PartialObjectMetadata{META},{JSON}", (PROTOBUF, "PartialObjectMetadata")),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", (JSON, "")),
        ("text/html", None),
        ("application/cbor", None),
        (f"application/json;as=Foo{META}", None),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", None),
        (f"{PROTOBUF};as=Table{META}", None),
        ("application/json;q=0", None),
        ("application/json;q=x", None),
        (";;,,=", None),
    ],
)
def test_an_accept_header_selects_a_representation(accept: str, expected: tuple[Representation, str] | None) -> None:
    assert accepted_format(accept) == (None if expected is None else AcceptedFormat(*expected))


async def reply_to(server: Served, method: str, path: str, accept: str, body: Any = None, **query: str) -> Any:
    reply, _ = await server.call(method, path, body, accept=accept, **query)
    return reply


def decode_reply(reply: Reply) -> Any:
    decode = {YAML: yaml.safe_load, PROTOBUF: decode_protobuf}.get(reply.content_type, msgspec.json.decode)  # type: ignore[call-overload]
    return decode(reply.body)


@pytest.mark.parametrize(
    ("method", "path", "accept", "status"),
    [
        ("GET", MAPS, "text/html", 406),
        ("GET", f"{MAPS}/nothing", "text/html", 406),
        ("POST", MAPS, "text/html", 406),
        ("DELETE", f"{MAPS}/a", "text/html", 406),
        ("GET", f"{MAPS}?watch=1", YAML, 406),
        ("GET", f"{MAPS}?watch=1", "text/html", 406),
        ("GET", WIDGETS, PROTOBUF, 406),
        ("POST", WIDGETS, PROTOBUF, 406),
        ("GET", f"{WIDGETS}?watch=1", PROTOBUF, 406),
        ("GET", WIDGETS, YAML, 200),
        ("GET", WIDGETS, f"{PROTOBUF};as=PartialObjectMetadataList{META}", 200),
        ("GET", "/apis", "text/html", 406),
        ("GET", "/version", PROTOBUF, 406),
        ("GET", "/openapi/v3", PROTOBUF, 200),
        ("GET", "/healthz", PROTOBUF, 200),
        ("GET", "/api", PROTOBUF, 200),
    ],
)
async def test_what_a_client_does_not_accept_is_refused_before_anything_is_written(
    method: str, path: str, accept: str, status: int
) -> None:
    async with serving() as server:
        await create_widget_crd(server)
        await server.client.create(CONFIG_MAPS, "default", config())
        path, _, watch = path.partition("?")
        body = widget("b") if path == WIDGETS else config("b")
        query = {"watch": "1", "timeoutSeconds": "1"} if watch else {}
        reply = await reply_to(server, method, path, accept, body if method == "POST" else None, **query)
        assert reply.status == status, reply.body
        if status == 406:
            assert decode_reply(reply)["reason"] == "NotAcceptable"
        _, maps = await server.call("GET", MAPS)
        _, widgets = await server.call("GET", WIDGETS)
        assert ([each["metadata"]["name"] for each in maps["items"]], widgets["items"]) == (["a"], [])


async def test_objects_lists_errors_and_discovery_are_served_in_each_representation() -> None:
    async with serving() as server:
        await server.client.create(CONFIG_MAPS, "default", config(data={"on": "yes", "at": "2030-01-01"}))
        for path in (f"{MAPS}/a", MAPS, f"{MAPS}/nothing", "/api/v1/nothing", "/apis", "/api/v1"):
            as_json = await reply_to(server, "GET", path, JSON)
            content = msgspec.json.decode(as_json.body)
            as_yaml = await reply_to(server, "GET", path, YAML)
            assert (as_yaml.status, as_yaml.content_type) == (as_json.status, YAML)
            assert yaml.safe_load(as_yaml.body) == content
            as_protobuf = await reply_to(server, "GET", path, PROTOBUF)
            assert (as_protobuf.status, as_protobuf.content_type) == (as_json.status, PROTOBUF)
            assert as_protobuf.body == encode_protobuf(content)


async def test_a_body_has_a_media_type_that_the_verb_accepts() -> None:
    async with serving() as server:
        await create_widget_crd(server)
        await server.client.create(CONFIG_MAPS, "default", config())
        cases = [
            ("POST", MAPS, "text/plain", 415),
            ("POST", MAPS, "application/merge-patch+json", 415),
            ("POST", MAPS, "application/apply-patch+yaml", 415),
            ("POST", MAPS, PROTOBUF, 400),  # the body is JSON
            ("PUT", f"{MAPS}/a", "application/strategic-merge-patch+json", 415),
            ("PATCH", f"{MAPS}/a", PROTOBUF, 415),
            ("PATCH", f"{MAPS}/a", JSON, 415),
            ("DELETE", f"{MAPS}/a", "text/plain", 415),
            ("POST", MAPS, YAML, 201),
        ]
        for method, path, media, status in cases:
            reply, _ = await server.call(method, path, config("b"), media=media)
            assert reply.status == status, (method, path, media)
        # The group of the body is a custom one: its kinds have no protobuf.
        envelope = b"k8s\x00\n\x18\n\x0eexample.org/v1\x12\x06Widget\x12\x00"
        reply, _ = await server.call("POST", WIDGETS, envelope, media=PROTOBUF)
        assert reply.status == 415


async def watch_chunks(server: Served, accept: str, count: int, **query: str) -> list[bytes]:
    """Return the first chunks of a watch of all ConfigMaps."""
    request = Request(method="GET", path="/api/v1/configmaps", query={"watch": "1", **query}, accept=accept)
    reply = await server.api.handle(request)
    assert isinstance(reply, StreamReply), reply
    chunks = [await anext(reply.chunks) for _ in range(count)]
    await reply.chunks.aclose()  # type: ignore[attr-defined]
    return chunks


def events_in(frames: bytes) -> list[tuple[str, dict[str, Any]]]:
    events = []
    while frames:
        size, frames = int.from_bytes(frames[:4]), frames[4:]
        event = dict(iter_fields(frames[:size]))
        raw = dict(iter_fields(event[2]))  # type: ignore[arg-type]
        events.append((event[1].decode(), decode_protobuf(raw[1])))  # type: ignore[union-attr, arg-type]
        frames = frames[size:]
    return events


async def test_the_events_of_a_watch_are_served_in_protobuf() -> None:
    async with serving() as server:
        created = await server.client.create(CONFIG_MAPS, "default", config())
        options = {"sendInitialEvents": "1", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "1"}
        (added,), (bookmark,) = map(events_in, await watch_chunks(server, PROTOBUF, 2, **options))
        assert added == ("ADDED", created)
        assert bookmark[0] == "BOOKMARK"
        assert bookmark[1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize("representation", [JSON, PROTOBUF])
async def test_a_watch_may_contain_metadata_only(representation: Representation) -> None:
    async with serving() as server:
        created = await server.client.create(CONFIG_MAPS, "default", config(data={"a": "1"}))
        options = {"sendInitialEvents": "1", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "1"}
        accept = f"{representation};as=PartialObjectMetadata{META}"
        chunks = await watch_chunks(server, accept, 2, **options)
        if representation is JSON:
            lines = [msgspec.json.decode(chunk) for chunk in chunks]
            events = [(line["type"], line["object"]) for line in lines]
        else:
            events = [event for chunk in chunks for event in events_in(chunk)]
        (first, added), (second, bookmark) = events
        kind = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
        assert (first, added) == ("ADDED", {**kind, "metadata": created["metadata"]})
        assert second == "BOOKMARK"
        assert {name: bookmark[name] for name in kind} == kind


async def test_a_watch_ends_with_an_error_if_an_object_has_no_protobuf_representation() -> None:
    async with serving() as server:
        created = await server.client.create(CONFIG_MAPS, "default", config())
        unrepresentable = {**created, "unknown": "field"}
        await server.api.store.run_transaction(lambda transaction: transaction.put("/configmaps", unrepresentable))
        (chunk,) = await watch_chunks(server, PROTOBUF, 1)
        ((event_type, status),) = events_in(chunk)
        assert (event_type, status["kind"], status["code"]) == ("ERROR", "Status", 500)


async def test_a_log_is_text_whatever_the_client_accepts() -> None:
    async with serving() as server:
        await server.client.create(PODS, "default", pod())
        for accept in (PROTOBUF, "text/plain", JSON):
            reply = await reply_to(server, "GET", "/api/v1/namespaces/default/pods/a/log", accept)
            assert reply.status != 406, accept
