"""Random strategic merge patches of the same objects have the same result on both servers."""

from __future__ import annotations

import os
import random
from typing import Any

import msgspec
import pytest

from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.kube.client_config import create_transport
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH, Request, Transport
from pliant.runtime.clock import SystemClock
from tests.controlplane.cluster import ControlPlane

pytestmark = pytest.mark.real

SEED = int(os.environ.get("PLIANT_SEED", "7"))
STEPS = 400
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SERVICES = "/api/v1/namespaces/default/services"
CONTAINERS: list[dict[str, Any]] = [
    {
        "name": name,
        "image": "one",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 81, "protocol": "UDP"}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/w"}],
        "args": ["x"],
    }
    for name in ("a", "b", "c")
]
POD_SPEC: dict[str, Any] = {
    "containers": CONTAINERS,
    "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "w"}}],
    "imagePullSecrets": [{"name": "p"}, {"name": "q"}],
    "tolerations": [{"key": "t", "operator": "Exists"}],
    "securityContext": {"runAsUser": 1},
}
OBJECTS: dict[str, dict[str, Any]] = {
    DEPLOYMENTS: {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "patched", "finalizers": ["x.org/a", "x.org/b"], "labels": {"l": "1"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"k": "v"}},
            "template": {"metadata": {"labels": {"k": "v"}}, "spec": POD_SPEC},
        },
    },
    SERVICES: {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "patched"},
        "spec": {"selector": {"a": "b"}, "ports": [{"name": f"p{port}", "port": port} for port in (80, 81, 82)]},
    },
    BUDGETS: {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "patched"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    },
}
KEYED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "containers": ("name", ("a", "b", "c", "d", "e")),
    "env": ("name", ("A", "B", "C")),
    "ports": ("containerPort", (80, 81, 82)),
    "volumeMounts": ("mountPath", ("/v", "/w", "/x")),
    "volumes": ("name", ("v", "w", "x")),
    "imagePullSecrets": ("name", ("p", "q", "r")),
}
"""The key of each list, and the values that patches use."""


class Patches:
    """Makes patches by chance."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def next(self) -> tuple[str, dict[str, Any]]:
        collection = self.chance.choice((DEPLOYMENTS, DEPLOYMENTS, DEPLOYMENTS, SERVICES, BUDGETS))
        if collection == BUDGETS:
            selector = {"matchLabels": {self.chance.choice("ac"): "d"}}
            return collection, {"spec": {"selector": selector}}
        if collection == SERVICES:
            spec: dict[str, Any] = {"selector": self.chance.choice(({"c": "d"}, {"a": None}, {"$patch": "delete"}))}
            self.add_list(spec, "ports", "port", (80, 81, 82, 83), self.service_port)
            return collection, {"spec": spec}
        return collection, {"metadata": self.metadata(), "spec": {"template": {"spec": self.pod_spec()}}}

    def metadata(self) -> dict[str, Any]:
        names = self.some(("x.org/a", "x.org/b", "x.org/c"))
        return self.chance.choice(
            (
                {},
                {"finalizers": names},
                {"$deleteFromPrimitiveList/finalizers": names},
                {"$setElementOrder/finalizers": names, "finalizers": names},
                {"labels": {"$patch": "replace", "m": "2"}},
            )
        )

    def pod_spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        self.add_list(spec, "containers", *KEYED["containers"], self.container)
        if self.chance.random() < 0.5:
            self.add_list(spec, "volumes", *KEYED["volumes"], self.volume)
        if self.chance.random() < 0.3:
            self.add_list(spec, "imagePullSecrets", *KEYED["imagePullSecrets"], dict)
        if self.chance.random() < 0.3:
            spec["tolerations"] = self.chance.choice(([], [{"key": "u", "operator": "Exists"}], None))
        if self.chance.random() < 0.3:
            change: dict[str, Any] = {"$patch": "delete"}
            spec["securityContext"] = self.chance.choice((change, {"runAsUser": None}, {"fsGroup": 2}, None))
        return spec

    def container(self) -> dict[str, Any]:
        container: dict[str, Any] = {"image": self.chance.choice(("two", "three"))}
        if self.chance.random() < 0.4:
            self.add_list(container, "env", *KEYED["env"], lambda: {"value": self.chance.choice("34")})
        if self.chance.random() < 0.4:
            self.add_list(container, "ports", *KEYED["ports"], lambda: {"protocol": "TCP"})
        if self.chance.random() < 0.3:
            self.add_list(container, "volumeMounts", *KEYED["volumeMounts"], lambda: {"name": "v"})
        if self.chance.random() < 0.3:
            container["args"] = self.chance.choice((["y"], None))
        return container

    def volume(self) -> dict[str, Any]:
        source = self.chance.choice(("emptyDir", "secret"))
        content: dict[str, Any] = {} if source == "emptyDir" else {"secretName": "s"}
        return {"$retainKeys": ["name", source], source: content}

    def service_port(self) -> dict[str, Any]:
        return {"name": self.chance.choice(("p80", "p81", "p82", "p83")), "targetPort": 90}

    def add_list(self, owner: dict[str, Any], field: str, key: str, values: tuple[Any, ...], make: Any) -> None:
        """Add a patch of a list: changes and deletions of items, and sometimes an order."""
        items: list[dict[str, Any]] = []
        for value in self.some(values):
            is_deleted = self.chance.random() < 0.25
            items.append({key: value, "$patch": "delete"} if is_deleted else {key: value, **make()})
        if self.chance.random() < 0.08:
            items.insert(0, {"$patch": "replace"})
        if self.chance.random() < 0.04:
            items.append(make())
        elif self.chance.random() < 0.5:
            order = [item[key] for item in items if key in item]
            order += [value for value in values if value not in order and self.chance.random() < 0.4]
            owner[f"$setElementOrder/{field}"] = [{key: value} for value in order]
        owner[field] = items

    def some(self, values: tuple[Any, ...]) -> list[Any]:
        return self.chance.sample(values, self.chance.randint(1, len(values)))


async def test_patches_have_the_same_result_on_both_servers(plane: ControlPlane) -> None:
    real = create_transport(plane.kubeconfig, None, SystemClock().now)
    try:
        async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), SystemClock()) as api:
            servers: tuple[Transport, Transport] = (real, InProcessTransport(api))
            for server in servers:
                for collection, obj in OBJECTS.items():
                    await send(server, "POST", collection, obj, "application/json")
            patches = Patches(random.Random(SEED))
            for number in range(STEPS):
                collection, patch = patches.next()
                path = f"{collection}/patched"
                answers = [await send(server, "PATCH", path, patch, STRATEGIC_MERGE_PATCH) for server in servers]
                # Whether the result is valid is another question.
                same = answers[0] == answers[1] or answers[0] == "Invalid"
                assert same, f"patch {number}: {patch}\nreal     {answers[0]}\nembedded {answers[1]}"
    finally:
        await real.aclose()


async def send(server: Transport, method: str, path: str, body: dict[str, Any], media: str) -> Any:
    """Return what a server makes of a patch, or that it refuses it; patches change nothing."""
    query = {"dryRun": "All"} if method == "PATCH" else {}
    content = msgspec.json.encode(body)
    reply = await server.send(Request(method=method, path=path, query=query, body=content, content_type=media))
    obj = msgspec.json.decode(reply.body)
    if method == "POST":
        assert reply.status == 201, obj
    if reply.status >= 400:
        return "Invalid" if reply.status == 422 else "refused"
    spec = {name: value for name, value in obj["spec"].items() if not name.startswith(("clusterIP", "ipFamil"))}
    return without_empty({name: obj["metadata"].get(name) for name in ("labels", "finalizers")}), without_empty(spec)


def without_empty(value: Any) -> Any:
    """Return a copy without empty objects and lists, which Go omits if the field says so."""
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    copies = {name: without_empty(child) for name, child in value.items()}
    return {name: child for name, child in copies.items() if child not in ({}, [], None)}
