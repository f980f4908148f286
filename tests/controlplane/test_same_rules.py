"""Rules of CRDs are accepted, refused and evaluated alike by both servers, with the same messages."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.kube.client_config import create_transport
from pliant.kube.transport.base import Request, Transport
from pliant.runtime.clock import SystemClock
from tests.cel.rule_cases import WRITES, Writes, definition, definitions
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installed import wait_served

pytestmark = pytest.mark.real

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Pair = tuple[Transport, Transport]


@pytest.fixture
async def servers(plane: ControlPlane) -> AsyncIterator[Pair]:
    """The real server and an embedded one."""
    real = create_transport(plane.kubeconfig, None, SystemClock().now)
    try:
        async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), SystemClock()) as api:
            yield real, InProcessTransport(api)
    finally:
        await real.aclose()


async def call(server: Transport, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
    media = "application/json-patch+json" if method == "PATCH" else "application/json"
    content = json.dumps(body).encode() if body is not None else b""
    reply = await server.send(Request(method=method, path=path, query=query, body=content, content_type=media))
    return reply.status, json.loads(reply.body) if reply.body[:1] == b"{" else reply.body.decode()


async def answers(servers: Pair, method: str, path: str, body: Any, **query: str) -> list[object]:
    """What both servers answered: the status, and every error with its message."""
    return [comparable(*await call(server, method, path, body, **query)) for server in servers]


def comparable(status: int, body: Any) -> object:
    if status < 400:
        return status
    causes = sorted(
        (cause.get("field", ""), cause["reason"], re.sub(r"selfType\d*", "selfType", cause["message"]))
        for cause in body["details"]["causes"]
    )
    return [status, body["reason"], causes]


async def test_definitions_with_rules_are_refused_alike(servers: Pair) -> None:
    differing = {}
    for title, crd in definitions():
        real, embedded = await answers(servers, "POST", CRDS, crd, dryRun="All")
        if real != embedded:
            differing[title] = (real, embedded)
    assert not differing, report(differing)


async def test_objects_with_rules_are_refused_alike(servers: Pair, plane: ControlPlane) -> None:
    differing: dict[str, object] = {}
    plurals = [f"written{index}" for index in range(len(WRITES))]
    served = []
    for plural, writes in zip(plurals, WRITES, strict=True):
        real, embedded = await answers(servers, "POST", CRDS, definition(plural, writes.schema()))
        if real != embedded:
            differing[plural] = (real, embedded)
        elif real == 201:
            served.append((plural, writes))
    for plural, writes in served:
        await asyncio.to_thread(wait_served, plane.kubeconfig, f"{plural}.rules.example.org")
        await write(servers, plural, writes, differing)
    assert not differing, report(differing)
    assert len(served) > 50


async def write(servers: Pair, plural: str, writes: Writes, differing: dict[str, object]) -> None:
    path, exists = f"/apis/rules.example.org/v1/{plural}", False
    for spec in writes.specs:
        kind = {"apiVersion": "rules.example.org/v1", "kind": plural.capitalize(), "metadata": {"name": "x"}}
        if exists:
            patch = [{"op": "replace", "path": "/spec", "value": spec}]
            real, embedded = await answers(servers, "PATCH", f"{path}/x", patch)
        else:
            real, embedded = await answers(servers, "POST", path, {**kind, "spec": spec})
            exists = real == 201
        if real != embedded:
            differing[f"{writes.rules} {writes.properties} {spec}"] = (real, embedded)


def report(differing: dict[str, Any]) -> str:
    return "\n".join(f"{title}\n  real     {real}\n  embedded {ours}" for title, (real, ours) in differing.items())
