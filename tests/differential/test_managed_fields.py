"""Two managers apply, force and patch at random: objects, managed fields and conflicts are the same on both servers."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

import msgspec
import pytest

from pliant.cli.cluster.apply import install_crds
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.transport.base import APPLY_PATCH, MERGE_PATCH, Request, Transport
from pliant.runtime.clock import SystemClock
from tests.controlplane.cluster import ControlPlane
from tests.depth import SEED

pytestmark = pytest.mark.real

IN = "/api/v1/namespaces/default"
JOBS = "/apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs"
STEPS = 300
_WHEN = re.compile(r" at \d{4}-[0-9T:-]+Z")


async def test_owners_are_the_same_on_both_servers(plane: ControlPlane) -> None:
    real = create_transport(plane.kubeconfig, None, SystemClock().now)
    try:
        async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), SystemClock()) as api:
            for server in (real, InProcessTransport(api)):
                await install_crds(KubeClient(server))
            await _wait_served(real)
            chance = random.Random(SEED)
            for number in range(STEPS):
                step = _step(chance)
                answers = [await _answer(server, step) for server in (real, InProcessTransport(api))]
                assert answers[0] == answers[1], f"seed {SEED}, step {number}: {step}"
    finally:
        await real.aclose()


async def _wait_served(server: Transport) -> None:
    """Return when a new kind is served, which the real server does a moment later."""
    for _ in range(200):
        if (await server.send(Request(method="GET", path=JOBS))).status == 200:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{JOBS} is not served")


def _step(chance: random.Random) -> Request:
    """Return a random request for one of three objects."""
    if chance.random() < 0.3:
        return _random_job(chance)
    is_service = chance.random() < 0.4
    name = "s" if is_service else "m"
    metadata: dict[str, Any] = {"name": name}
    if chance.random() < 0.5:
        metadata["labels"] = {key: chance.choice("12") for key in _random_subset(chance, "pq")}
    if chance.random() < 0.3:
        metadata["finalizers"] = [f"example.org/{key}" for key in _random_subset(chance, "fg")]
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Service" if is_service else "ConfigMap"}
    body["metadata"] = metadata
    if is_service:
        ports = [
            {"name": f"n{port}", "port": port, "targetPort": port + chance.choice((0, 1))}
            for port in chance.sample((80, 81, 82), chance.choice((1, 2)))
        ]
        body["spec"] = {"ports": ports, "selector": {key: chance.choice("12") for key in _random_subset(chance, "tu")}}
    elif chance.random() < 0.8:
        body["data"] = {key: chance.choice("12") for key in _random_subset(chance, "xyz")}
    path = f"{IN}/{'services' if is_service else 'configmaps'}/{name}"
    query = {"fieldManager": chance.choice(("ada", "bob"))}
    if chance.random() < 0.25:
        patch = {key: value for key, value in body.items() if key != "spec"}
        patch["metadata"] = {key: value for key, value in metadata.items() if key != "finalizers"}
        return _request(path, patch, query, MERGE_PATCH)
    query["force"] = chance.choice(("true", "false"))
    return _request(path, body, query, APPLY_PATCH)


def _random_job(chance: random.Random) -> Request:
    """Return a random request for a custom object."""
    body: dict[str, Any] = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob"}
    body["metadata"] = {"name": "j", "labels": {key: chance.choice("12") for key in _random_subset(chance, "pq")}}
    container = {"name": "aitj-main", "image": chance.choice("xy"), "command": ["true"]}
    group: dict[str, Any] = {"replicas": chance.choice((1, 2)), "template": {"spec": {"containers": [container]}}}
    if chance.random() < 0.5:
        group["restartPolicy"] = chance.choice(("Never", "OnFailure"))
    body["spec"] = {"replicaSpecs": {"worker": group}, "suspend": True}
    if chance.random() < 0.5:
        body["spec"]["timeLimit"] = chance.choice((100, 200))
    query = {"fieldManager": chance.choice(("ada", "bob"))}
    if chance.random() < 0.25:
        return _request(f"{JOBS}/j", body, query, MERGE_PATCH)
    return _request(f"{JOBS}/j", body, {**query, "force": chance.choice(("true", "false"))}, APPLY_PATCH)


def _random_subset(chance: random.Random, keys: str) -> list[str]:
    return [key for key in keys if chance.random() < 0.6] or [keys[0]]


def _request(path: str, body: dict[str, Any], query: dict[str, str], media: str) -> Request:
    content = msgspec.json.encode(body)
    return Request(method="PATCH", path=path, query=query, body=content, content_type=media)


async def _answer(server: Transport, step: Request) -> Any:
    reply = await server.send(step)
    said = msgspec.json.decode(reply.body)
    if reply.status >= 400:
        causes = (said.get("details") or {}).get("causes")
        for cause in causes or ():
            cause["message"] = _WHEN.sub("", cause["message"])
        causes = sorted(causes or (), key=msgspec.json.encode)
        return reply.status, said["reason"], _WHEN.sub("", said["message"]), causes
    metadata = said["metadata"]
    fields = sorted(
        (
            each["manager"],
            each["operation"],
            each.get("subresource", ""),
            msgspec.json.encode(each["fieldsV1"], order="sorted"),
        )
        for each in metadata.get("managedFields", ())
    )
    ports = [{key: port.get(key) for key in ("port", "targetPort")} for port in said.get("spec", {}).get("ports", ())]
    kept = metadata.get("labels"), metadata.get("finalizers"), said.get("data") or None, ports
    if "replicaSpecs" in said.get("spec", {}):
        return reply.status, kept, said["spec"], fields
    return reply.status, kept, said.get("spec", {}).get("selector"), fields
