"""Admission plug-ins see every write of a client, may change it, and may refuse it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pliant.embedded.apiserver.admission.plugins import AdmissionRequest, Operation
from pliant.embedded.apiserver.http.errors import forbidden
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.store import Transaction
from pliant.errors import Forbidden, NotFound
from pliant.kube.resources import CONFIG_MAPS, PODS
from pliant.kube.transport.base import JSON_CONTENT_TYPE, Request
from tests.embedded.serving import WIDGETS, Served, config, create_widget_crd, pod, serving, widget
from tests.virtual_time import on_virtual_time


class Recorder:
    """Notes the requests for pods, widgets and ConfigMaps, labels new objects, and refuses some of them."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.requests: list[AdmissionRequest] = []
        self.refused = ""

    def is_active(self, transaction: Transaction, kind: Kind, namespace: str) -> bool:
        return kind.plural in ("pods", "widgets", "configmaps")

    def mutate(self, request: AdmissionRequest) -> None:
        if request.operation is Operation.CREATE and request.obj is not None:
            request.obj["metadata"].setdefault("labels", {})["seen"] = "yes"

    def validate(self, request: AdmissionRequest) -> None:
        self.seen.append((request.operation, "/".join(filter(None, (request.kind.plural, request.subresource)))))
        self.requests.append(request)
        request.warnings.append(f"seen {request.name}")
        if request.name == self.refused:
            raise forbidden(request.kind, request.name, "refused")


@asynccontextmanager
async def recording() -> AsyncIterator[tuple[Served, Recorder]]:
    async with serving() as server:
        recorder = Recorder()
        server.api.admission_plugins.append(recorder)
        yield server, recorder


@on_virtual_time
async def test_every_write_of_a_client_is_seen_with_the_object_before_and_after() -> None:
    async with recording() as (server, recorder):
        await create_widget_crd(server)
        path = "/apis/example.org/v1/namespaces/default/widgets"
        await server.client.create(WIDGETS, "default", widget(size=1))
        await server.client.patch(WIDGETS, "default", "a", {"spec": {"size": 2}})
        await server.client.patch(WIDGETS, "default", "a", {"status": {"phase": "x"}}, subresource="status")
        await server.client.patch(WIDGETS, "default", "a", {"spec": {"replicas": 3}}, subresource="scale")
        await server.call("PATCH", f"{path}/b", widget("b"), media="application/apply-patch+yaml", fieldManager="me")
        await server.client.delete(WIDGETS, "default", "a")
        assert recorder.seen == [
            ("CREATE", "widgets"),
            ("UPDATE", "widgets"),
            ("UPDATE", "widgets/status"),
            ("UPDATE", "widgets/scale"),
            ("CREATE", "widgets"),
            ("DELETE", "widgets"),
        ]
        create, patch, _, scale, _, delete = recorder.requests
        assert (create.old, _spec(create.obj)) == (None, {"size": 1})
        assert (_spec(patch.old), _spec(patch.obj)) == ({"size": 1}, {"size": 2})
        assert (_spec(scale.old), _spec(scale.obj)) == ({"replicas": 2}, {"replicas": 3})
        assert (delete.obj, _spec(delete.old)) == (None, {"size": 3})


@on_virtual_time
async def test_bindings_evictions_and_streams_are_seen() -> None:
    async with recording() as (server, recorder):
        await server.client.create(PODS, "default", pod())
        path = "/api/v1/namespaces/default/pods/a"
        await server.call("POST", f"{path}/binding", {"metadata": {"name": "a"}, "target": {"name": "n"}})
        query = {"command": "true", "container": "main", "stdout": "1"}
        request = Request(method="GET", path=f"{path}/exec", query=query, accept=JSON_CONTENT_TYPE)
        with pytest.raises(Exception, match="no node serves exec"):
            server.api.prepare_session(request, ["true"])
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
        await server.call("POST", f"{path}/eviction", eviction)
        assert recorder.seen == [
            ("CREATE", "pods"),
            ("CREATE", "pods/binding"),
            ("CONNECT", "pods/exec"),
            ("CREATE", "pods/eviction"),
        ]
        options = {"kind": "PodExecOptions", "apiVersion": "v1", "command": ["true"], "container": "main"}
        assert recorder.requests[2].obj == {**options, "stdout": True}


@on_virtual_time
async def test_a_plugin_changes_objects_and_adds_warnings() -> None:
    async with recording() as (server, _):
        reply, created = await server.call("POST", "/api/v1/namespaces/default/configmaps", config())
        assert created["metadata"]["labels"] == {"seen": "yes"}
        assert reply.headers["Warning"] == '299 - "seen a"'


@on_virtual_time
async def test_what_a_plugin_refuses_is_not_stored() -> None:
    async with recording() as (server, recorder):
        await server.client.create(CONFIG_MAPS, "default", config("b"))
        recorder.refused = "a"
        with pytest.raises(Forbidden, match='configmaps "a" is forbidden: refused'):
            await server.client.create(CONFIG_MAPS, "default", config("a"))
        with pytest.raises(NotFound):
            await server.client.get(CONFIG_MAPS, "default", "a")
        recorder.refused = "b"
        with pytest.raises(Forbidden, match="refused"):
            await server.client.delete(CONFIG_MAPS, "default", "b")
        reply, _ = await server.call("DELETE", "/api/v1/namespaces/default/configmaps")
        assert reply.status == 403
        assert await server.client.get(CONFIG_MAPS, "default", "b")


@on_virtual_time
async def test_a_transaction_lists_what_it_and_others_have_decided() -> None:
    async with recording() as (server, _):
        await server.client.create(CONFIG_MAPS, "default", config("b"))

        def decide(transaction: Transaction) -> list[str]:
            first = transaction.list_objects("/configmaps", "default")[0].decode()
            transaction.remove("/configmaps", first)
            metadata = {"name": "a", "namespace": "default", "uid": "1"}
            transaction.put("/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
            return [record.key.name for record in transaction.list_objects("/configmaps", "default")]

        assert await server.api.store.run_transaction(decide) == ["a"]


def _spec(obj: dict[str, Any] | None) -> Any:
    return (obj or {}).get("spec")
