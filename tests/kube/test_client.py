from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pliant import errors
from pliant.kube.client import LIST_PAGE_SIZE, KubeClient
from pliant.kube.codec import WatchEventType
from pliant.kube.objects import Node, Pod, Service
from pliant.kube.resources import CRDS, LEASES, NODES, PODS, SERVICES
from pliant.kube.transport.base import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Reply, Request, StreamReply
from pliant.kube.transport.retry import MAX_ATTEMPTS, RETRY_TIMEOUT_SECONDS
from tests.virtual_time import on_virtual_time


def reply(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status=status, body=json.dumps(body).encode(), headers=headers or {})


def refusal(code: int, reason: str = "", headers: Mapping[str, str] | None = None, **extra: Any) -> Reply:
    body = {"kind": "Status", "code": code, "reason": reason, "message": f"said {code}", **extra}
    return reply(body, code, headers)


class Script:
    """A transport that gives prepared answers and remembers what was asked."""

    def __init__(self, *replies: Reply | errors.Unreachable, chunks: list[bytes] | None = None) -> None:
        self.replies = list(replies)
        self.chunks = chunks or []
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Reply:
        self.requests.append(request)
        answer = self.replies.pop(0)
        if isinstance(answer, errors.Unreachable):
            raise answer
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        self.requests.append(request)
        if self.replies:
            answer = self.replies.pop(0)
            assert isinstance(answer, Reply)
            yield StreamReply(status=answer.status, chunks=_all([answer.body]), headers=answer.headers)
        else:
            yield StreamReply(status=200, chunks=_all(self.chunks))

    async def aclose(self) -> None: ...


async def _all(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def meta(name: str, version: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version), "managedFields": [{}]}}


def test_paths_are_those_of_the_api() -> None:
    assert PODS.path("default", "a", "log") == "/api/v1/namespaces/default/pods/a/log"
    assert PODS.path(None) == "/api/v1/pods"
    assert NODES.path(None, "n") == NODES.path("ignored", "n") == "/api/v1/nodes/n"
    assert LEASES.path("x") == "/apis/coordination.k8s.io/v1/namespaces/x/leases"
    assert (PODS.api_version, CRDS.api_version) == ("v1", "apiextensions.k8s.io/v1")
    assert PODS.path("default", "a/../b") == "/api/v1/namespaces/default/pods/a%2F..%2Fb"


@pytest.mark.parametrize(("namespace", "name"), [("default", ""), ("", "a"), ("default", ".."), (None, "a")])
def test_a_path_never_slips_to_the_collection_or_a_parent(namespace: str | None, name: str) -> None:
    with pytest.raises(ValueError):
        PODS.path(namespace, name)


async def test_answers_are_dicts_or_the_struct_asked_for() -> None:
    raw = {**meta("a"), "status": {"phase": "Running", "podIP": "10.0.0.7"}}
    client = KubeClient(Script(reply(raw), reply(raw)))
    as_dict = await client.get(PODS, "default", "a")
    assert as_dict["status"]["phase"] == "Running"
    assert "managedFields" not in as_dict["metadata"]
    assert (await client.get(PODS, "default", "a", decode_as=Pod)).status.pod_ip == "10.0.0.7"


async def test_a_list_follows_its_pages() -> None:
    script = Script(
        reply({"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [meta("a")]}),
        reply({"metadata": {"resourceVersion": "7"}, "items": [meta("b")]}),
    )
    listing = await KubeClient(script).list(PODS, "default", labels="x=y", fields="spec.nodeName=n", decode_as=Pod)
    assert [pod.metadata.name for pod in listing.items] == ["a", "b"]
    assert listing.resource_version == "7"
    first, second = (request.query for request in script.requests)
    assert first == {"labelSelector": "x=y", "fieldSelector": "spec.nodeName=n", "limit": str(LIST_PAGE_SIZE)}
    assert second == {**first, "continue": "next"}


async def test_a_list_whose_pages_expire_starts_over_in_one_piece() -> None:
    script = Script(
        reply({"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [meta("a")]}),
        refusal(410, "Expired"),
        reply({"metadata": {"resourceVersion": "9"}, "items": [meta("b")]}),
    )
    listing = await KubeClient(script).list(PODS, decode_as=Pod)
    assert [pod.metadata.name for pod in listing.items] == ["b"]
    assert listing.resource_version == "9"
    assert script.requests[-1].query == {}


async def test_an_empty_list_may_have_null_items() -> None:
    listing = await KubeClient(Script(reply({"metadata": {"resourceVersion": "7"}, "items": None}))).list(PODS)
    assert listing.items == []


async def test_listed_dicts_say_what_they_are() -> None:
    script = Script(reply({"metadata": {"resourceVersion": "7"}, "items": [meta("a")]}))
    (lease,) = (await KubeClient(script).list(LEASES)).items
    assert (lease["apiVersion"], lease["kind"]) == ("coordination.k8s.io/v1", "Lease")


async def test_writes_carry_their_options() -> None:
    script = Script(*(reply(meta("a")) for _ in range(5)))
    client = KubeClient(script)
    await client.create(PODS, "default", {"x": 1}, strict=True)
    await client.create(PODS, "default", {}, name="a", subresource="binding")
    await client.replace(PODS, "default", "a", {}, subresource="status")
    await client.patch(PODS, "default", "a", [], content_type=JSON_PATCH)
    await client.patch(PODS, "default", "a", {}, strict=True)
    asked = [(r.method, r.path.rpartition("/default")[2], r.content_type, r.query) for r in script.requests]
    ours = {"fieldManager": "pliant"}
    strict = {"fieldManager": "pliant", "fieldValidation": "Strict"}
    assert asked == [
        ("POST", "/pods", "application/json", strict),
        ("POST", "/pods/a/binding", "application/json", ours),
        ("PUT", "/pods/a/status", "application/json", ours),
        ("PATCH", "/pods/a", JSON_PATCH, ours),
        ("PATCH", "/pods/a", MERGE_PATCH, strict),
    ]
    assert script.requests[0].body == b'{"x":1}'


async def test_an_apply_says_who_applies_and_whether_by_force() -> None:
    script = Script(*(reply(meta("a")) for _ in range(2)))
    client = KubeClient(script)
    await client.apply(PODS, "default", {"metadata": {"name": "a"}})
    await client.apply(
        PODS, "default", {"metadata": {"name": "a"}}, field_manager="m", force=True, subresource="status"
    )
    first, second = script.requests
    assert (first.method, first.content_type) == ("PATCH", APPLY_PATCH)
    assert json.loads(first.body) == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    assert first.query == {"fieldManager": "pliant", "force": "false"}
    assert second.query == {"fieldManager": "m", "force": "true"}
    assert second.path.endswith("/pods/a/status")


async def test_a_delete_carries_its_precondition_grace_and_propagation() -> None:
    script = Script(reply(meta("a")))
    await KubeClient(script).delete(
        PODS, "default", "a", uid="u", resource_version="7", grace_period_seconds=0, propagation="Background"
    )
    options = json.loads(script.requests[0].body)
    assert options["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert (options["gracePeriodSeconds"], options["propagationPolicy"]) == (0, "Background")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(400, "BadRequest"), errors.BadRequest),
        (refusal(401), errors.Unauthorized),
        (refusal(403), errors.Forbidden),
        (refusal(404, "NotFound"), errors.NotFound),
        (refusal(409, "Conflict"), errors.Conflict),
        (refusal(409, "AlreadyExists"), errors.AlreadyExists),
        (refusal(410), errors.Gone),
        (refusal(422, "Invalid"), errors.Invalid),
        (refusal(500), errors.ServerError),
        (Reply(status=302, body=b""), errors.ApiError),
        (Reply(status=200, body=b"<html>"), errors.ServerError),
    ],
)
async def test_every_other_answer_is_an_error_of_its_own(answer: Reply, error: type[Exception]) -> None:
    with pytest.raises(error):
        await KubeClient(Script(answer)).get(PODS, "default", "a")


async def test_an_error_in_plain_text_keeps_its_words() -> None:
    with pytest.raises(errors.ServerError, match="upstream is down"):
        await KubeClient(Script(Reply(status=500, body=b"upstream is down\n"))).get(PODS, "default", "a")


RESET = errors.Unreachable("the connection was reset")


class Least(random.Random):
    """Chance that is always kind."""

    def uniform(self, a: float, b: float) -> float:
        return a


@on_virtual_time
async def test_a_call_turned_away_is_repeated_after_the_wait_asked_for() -> None:
    script = Script(refusal(429, headers={"Retry-After": "2"}), reply(meta("a")))
    await KubeClient(script, Least()).create(PODS, "default", {})
    assert asyncio.get_running_loop().time() == 2.0


@on_virtual_time
async def test_calls_turned_away_together_do_not_come_back_together() -> None:
    script = Script(*(refusal(429, headers={"Retry-After": "1"}) for _ in range(20)), *[reply(meta("a"))] * 20)
    client = KubeClient(script)
    moments: set[float] = set()

    async def call() -> None:
        await client.get(PODS, "default", "a")
        moments.add(asyncio.get_running_loop().time())

    await asyncio.gather(*(call() for _ in range(20)))
    assert len(moments) == 20
    assert all(1.0 <= moment <= 1.25 for moment in moments)


@on_virtual_time
async def test_an_unavailable_server_is_asked_again_for_reads_only() -> None:
    waiting = [refusal(503, details={"retryAfterSeconds": 1}) for _ in range(2)]
    client = KubeClient(Script(waiting[0], reply(meta("a")), waiting[1]))
    await client.get(PODS, "default", "a")
    with pytest.raises(errors.ServerError) as raised:
        await client.create(PODS, "default", {})
    assert raised.value.retry_after == 1.0


@on_virtual_time
async def test_a_broken_connection_is_tried_again_for_reads_only() -> None:
    await KubeClient(Script(RESET, refusal(502), RESET, reply(meta("a")))).get(PODS, "default", "a")
    script = Script(RESET)
    for write in (
        KubeClient(script).create(PODS, "default", {}),
        KubeClient(script).delete(PODS, "default", "a"),
        KubeClient(script).patch(PODS, "default", "a", {}),
        KubeClient(script).replace(PODS, "default", "a", {}),
    ):
        script.replies = [RESET]
        with pytest.raises(errors.Unreachable):
            await write


@on_virtual_time
async def test_an_error_of_the_object_is_no_load_to_wait_for() -> None:
    with pytest.raises(errors.TooManyRequests, match="said 429"):
        await KubeClient(Script(refusal(429))).create(PODS, "default", {}, name="a", subresource="eviction")


@on_virtual_time
async def test_patience_ends() -> None:
    script = Script(*(refusal(429, headers={"retry-after": "1"}) for _ in range(9)))
    with pytest.raises(errors.TooManyRequests):
        await KubeClient(script).get(PODS, "default", "a")
    assert len(script.requests) == MAX_ATTEMPTS
    script = Script(refusal(429, headers={"retry-after": str(int(RETRY_TIMEOUT_SECONDS) + 1)}))
    with pytest.raises(errors.TooManyRequests):
        await KubeClient(script).get(PODS, "default", "a")
    script = Script(*(refusal(429, headers={"retry-after": "6"}) for _ in range(9)))
    with pytest.raises(errors.TooManyRequests):
        await KubeClient(script).get(PODS, "default", "a")
    assert len(script.requests) == 2


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def shredded(text: bytes, size: int) -> list[bytes]:
    return [text[i : i + size] for i in range(0, len(text), size)]


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_watch_reads_lines_however_they_are_cut(size: int) -> None:
    bookmark = {"metadata": {"resourceVersion": "3"}, "spec": {"containers": None}}
    text = event("ADDED", meta("a", 1)) + b"\n" + event("DELETED", meta("a", 2)) + event("BOOKMARK", bookmark)
    watch = KubeClient(Script(chunks=shredded(text, size))).watch(PODS, resource_version="0", decode_as=Pod)
    seen = [(e.type, e.object and e.object.metadata.name, e.resource_version) async for e in watch]
    assert seen == [
        (WatchEventType.ADDED, "a", "1"),
        (WatchEventType.DELETED, "a", "2"),
        (WatchEventType.BOOKMARK, None, "3"),
    ]


async def test_a_watch_line_may_be_longer_than_any_buffer() -> None:
    big = {**meta("a"), "data": {"x": "y" * 3_000_000}}
    client = KubeClient(Script(chunks=shredded(event("ADDED", big), 64 * 1024)))
    events = [e async for e in client.watch(PODS, resource_version="0")]
    assert events[0].object is not None
    assert len(events[0].object["data"]["x"]) == 3_000_000


async def test_a_watch_may_begin_with_all_there_is() -> None:
    end = {"metadata": {"resourceVersion": "3", "annotations": {"k8s.io/initial-events-end": "true"}}}
    later = {"metadata": {"resourceVersion": "4", "annotations": {}}}
    script = Script(chunks=[event("ADDED", meta("a", 1)), event("BOOKMARK", end), event("BOOKMARK", later)])
    seen = [
        (e.resource_version, e.ends_initial_list)
        async for e in KubeClient(script).watch(PODS, resource_version=None, decode_as=Pod)
    ]
    assert seen == [("1", False), ("3", True), ("4", False)]
    asked = script.requests[0].query
    assert (asked["sendInitialEvents"], asked["resourceVersionMatch"]) == ("true", "NotOlderThan")
    assert "resourceVersion" not in asked


@pytest.mark.parametrize(
    "text",
    [
        b'{"object":{"metadata":{"name":"a","resourceVersion":"1"}},"type":"ADDED"}\n',
        b'{ "type" : "ADDED", "object": {"metadata":{"name":"a","resourceVersion":"1"}}}\n',
    ],
)
@pytest.mark.parametrize("into", [Pod, dict])
async def test_a_line_may_be_written_in_any_order(text: bytes, into: Any) -> None:
    [seen] = [e async for e in KubeClient(Script(chunks=[text])).watch(PODS, resource_version="0", decode_as=into)]
    assert (seen.type, seen.resource_version) == (WatchEventType.ADDED, "1")


@pytest.mark.parametrize(
    "text",
    [b'{"type":"ADDED"}', b'{"type":"ADDED","object":{}}', b'{"type":"NEWS","object":{}}', b'{"type":"ADD', b"[]"],
)
async def test_a_line_that_makes_no_sense_is_an_error_of_the_server(text: bytes) -> None:
    with pytest.raises(errors.ServerError):
        [e async for e in KubeClient(Script(chunks=[text + b"\n"])).watch(PODS, resource_version="0")]


@pytest.mark.parametrize("in_stream", [True, False])
async def test_gone_is_raised_alike_on_opening_and_within_the_stream(in_stream: bool) -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    script = Script(chunks=[event("ERROR", status)]) if in_stream else Script(reply(status, 410))
    with pytest.raises(errors.Gone, match="too old"):
        [e async for e in KubeClient(script).watch(PODS, resource_version="1")]


async def test_logs_come_as_they_are() -> None:
    script = Script(chunks=[b"one\ntw", b"o\n"])
    pieces = KubeClient(script).stream_logs(
        "default", "a", container="c", follow=True, tail_lines=5, since_seconds=60, previous=True
    )
    assert b"".join([piece async for piece in pieces]) == b"one\ntwo\n"
    asked = {"container": "c", "follow": "true", "tailLines": "5", "sinceSeconds": "60", "previous": "true"}
    assert script.requests[0].query == asked
    with pytest.raises(errors.NotFound):
        [piece async for piece in KubeClient(Script(refusal(404))).stream_logs("default", "a")]


async def test_any_path_can_be_read_raw() -> None:
    script = Script(Reply(status=200, body=b"ok"))
    assert await KubeClient(script).get_raw("/readyz?verbose=1", accept="*/*") == b"ok"
    assert (script.requests[0].path, script.requests[0].query) == ("/readyz", {"verbose": "1"})


async def test_services_and_nodes_are_read_in_part() -> None:
    service = {**meta("s"), "spec": {"clusterIP": "None", "ports": [{"port": 80, "targetPort": "http"}]}}
    node = {**meta("n"), "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}, "status": {"x": 1}}
    client = KubeClient(Script(reply(service), reply(node)))
    assert (await client.get(SERVICES, "default", "s", decode_as=Service)).spec.cluster_ip == "None"
    assert (await client.get(NODES, None, "n", decode_as=Node)).spec.taints[0].key == "k"


def test_importing_the_client_loads_no_http_library() -> None:
    program = "import sys, pliant.kube.cache.informer, pliant.runtime.controller; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
