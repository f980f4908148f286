"""An API server in memory with a manual clock, and the objects that tests create in it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pliant.embedded.apiserver.auth.cluster_credentials import ensure_serving_certificate, write_kubeconfig
from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from pliant.embedded.apiserver.http.https_server import HttpsServer, bind_loopback_socket
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.apiserver.streaming.logs import LogSource
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, Resource
from pliant.kube.transport.base import JSON_CONTENT_TYPE, Reply, Request
from pliant.runtime.clock import SystemClock
from tests.virtual_time import ThreeClocks

WIDGETS = Resource("example.org", "v1", "widgets", "Widget")


class Served:
    """A running API server and its client."""

    def __init__(self, api: ApiServer, clock: ThreeClocks) -> None:
        self.api = api
        self.clock = clock
        self.transport = InProcessTransport(api)
        self.client = KubeClient(self.transport)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = JSON_CONTENT_TYPE,
        accept: str = JSON_CONTENT_TYPE,
        **query: str,
    ) -> tuple[Reply, Any]:
        """Send a request; return the reply and its decoded body."""
        content = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        reply = await self.transport.send(
            Request(method=method, path=path, query=query, body=content, content_type=media, accept=accept)
        )
        return reply, msgspec.json.decode(reply.body) if reply.body[:1] in (b"{", b"[") else reply.body


@asynccontextmanager
async def serving(
    store: Store | None = None, logs: LogSource | None = None, mode: AuthorizationMode = AuthorizationMode.ALWAYS_ALLOW
) -> AsyncIterator[Served]:
    """Start an API server with its garbage collector."""
    clock = ThreeClocks()
    store = store or Store.in_memory()
    async with ApiServer.start(
        store, KindRegistry.with_builtin_kinds(), clock, log_source=logs, rng=random.Random(1), authorization_mode=mode
    ) as api:
        yield Served(api, clock)


def pod(name: str = "a", *, labels: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    """Return a minimal pod."""
    meta = {"name": name, **({"labels": dict(labels)} if labels else {}), **metadata}
    spec = {"containers": [{"name": "main", "image": "x", "command": ["true"]}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def config(name: str = "a", *, owner: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a ConfigMap, with an owner reference if `owner` is given."""
    metadata: dict[str, Any] = {"name": name}
    if owner is not None:
        metadata["ownerReferences"] = [owner_reference(owner)]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def owner_reference(owner: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        **more,
    }


def service(name: str, **spec: Any) -> dict[str, Any]:
    """Return a minimal service."""
    spec = {"selector": {"x": "y"}, "ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def widget(name: str = "a", **spec: Any) -> dict[str, Any]:
    """Return a custom resource of kind Widget."""
    return {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def widget_crd() -> dict[str, Any]:
    """The CRD of widgets: a size with a default, a colour, status and scale."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "minimum": 0, "default": 1},
                    "colour": {"type": "string", "enum": ["red", "green"]},
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "phase": {"type": "string"},
                    "selector": {"type": "string"},
                },
            },
        },
    }
    scale = {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [version],
        },
    }


async def create_widget_crd(server: Served) -> None:
    await server.client.create(CRDS, None, widget_crd())


async def run_until(until: Callable[[], bool], what: str, most: int = 1000) -> None:
    """Run other tasks until a condition is met."""
    for _ in range(most):
        if until():
            return
        await asyncio.sleep(0)
    raise AssertionError(f"condition not met: {what}")


TOKEN = "a-token-for-tests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachable:
    """An API server that listens on a local port."""

    url: str
    kubeconfig: Path
    authority: bytes
    front: HttpsServer


@asynccontextmanager
async def reachable(api: ApiServer, folder: Path) -> AsyncIterator[Reachable]:
    """Serve an API server over HTTPS, and write a kubeconfig to `folder`."""
    identity = ensure_serving_certificate(folder / "tls", SystemClock().now())
    async with HttpsServer.start(api, admin_token=TOKEN, create_ssl_context=identity.create_ssl_context) as front:
        listener = bind_loopback_socket()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        await front.add_listener(listener)
        kubeconfig = folder / "kubeconfig"
        write_kubeconfig(kubeconfig, url=url, ca_certificate=identity.ca_certificate, token=TOKEN)
        yield Reachable(url=url, kubeconfig=kubeconfig, authority=identity.ca_certificate, front=front)
