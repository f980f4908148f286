"""Makes a real API server refuse much or all of what one user asks, as an overloaded one does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import Resource
from pliant.kube.transport.base import Request
from pliant.kube.transport.http import HttpTransport
from pliant.runtime.clock import SystemClock
from tests.controlplane.cluster import ControlPlane

_FLOW = "flowcontrol.apiserver.k8s.io"
_RIGHTS = "rbac.authorization.k8s.io"
FLOW_SCHEMAS = Resource(_FLOW, "v1", "flowschemas", "FlowSchema", namespaced=False)
PRIORITY_LEVELS = Resource(_FLOW, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False)
ROLE_BINDINGS = Resource(_RIGHTS, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
PATIENCE = 20.0
_PATH = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def crowded(plane: ControlPlane, admin: KubeClient, user: str, shares: int = 2) -> AsyncIterator[HttpTransport]:
    """While this lasts, that user may do all things, but few at a time: the others are answered with 429.

    A share is about two and a half requests with the server's own settings. The transport is the user's.
    """
    transport = create_transport(plane.kubeconfig_for(user), None, SystemClock().now)
    made = [(PRIORITY_LEVELS, _level(user, shares)), (FLOW_SCHEMAS, _flow(user)), (ROLE_BINDINGS, _role(user))]
    answers = [await admin.create(resource, None, body) for resource, body in made]
    flow = answers[1]["metadata"]["uid"]
    try:
        async with asyncio.timeout(PATIENCE):
            while await _flow_of(transport) != flow:  # a new rule takes the server a moment to work by
                pass
        yield transport
    finally:
        for resource, body in reversed(made):
            await admin.delete(resource, None, body["metadata"]["name"])
        await transport.aclose()


@asynccontextmanager
async def overloaded(plane: ControlPlane, admin: KubeClient, user: str) -> AsyncIterator[None]:
    """While this lasts, whatever that user asks for is answered with 429; the user may do all things besides."""
    address = urlsplit(plane.url)
    async with crowded(plane, admin, user, shares=0) as transport:
        writers: list[asyncio.StreamWriter] = []
        try:
            # One or two requests are let through whatever the limit, so some must be under way that never end.
            for _ in range(4):
                where = address.hostname, address.port
                _, writer = await asyncio.open_connection(*where, ssl=plane.tls_for(user))
                writers.append(writer)
                writer.write(_half_a_request(str(address.netloc)))
                await writer.drain()
            async with asyncio.timeout(PATIENCE):
                while await _status_of(transport) != HTTPStatus.TOO_MANY_REQUESTS:
                    pass
            yield
        finally:
            for writer in writers:
                writer.close()


async def _flow_of(transport: HttpTransport) -> str:
    reply = await transport.send(Request(method="GET", path=_PATH))
    return reply.headers.get("X-Kubernetes-Pf-Flowschema-Uid", "")


async def _status_of(transport: HttpTransport) -> int:
    return (await transport.send(Request(method="GET", path=_PATH))).status


def _half_a_request(host: str) -> bytes:
    lines = [f"POST {_PATH} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", "Content-Length: 1000"]
    return "\r\n".join([*lines, "", "{"]).encode()


def _level(user: str, shares: int) -> dict[str, Any]:
    limits = {"nominalConcurrencyShares": shares, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    return {"metadata": {"name": f"little-for-{user}"}, "spec": {"type": "Limited", "limited": limits}}


def _flow(user: str) -> dict[str, Any]:
    resources = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    rule = {
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "resourceRules": [resources],
    }
    level = {"name": f"little-for-{user}"}
    spec = {"priorityLevelConfiguration": level, "matchingPrecedence": 2, "rules": [rule]}
    return {"metadata": {"name": f"little-for-{user}"}, "spec": spec}


def _role(user: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"all-for-{user}"},
        "roleRef": {"apiGroup": _RIGHTS, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": _RIGHTS, "kind": "User", "name": user}],
    }
