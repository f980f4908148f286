"""The log directory of a node is for those who may use nodes/proxy: it has the logs of all namespaces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.errors import Forbidden, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import NODES, Resource
from tests.access.table import GROUP, binding, role, rule, user
from tests.embedded.serving import Served, serving

CLUSTER_ROLES = Resource(GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_BINDINGS = Resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
BINDINGS = Resource(GROUP, "v1", "rolebindings", "RoleBinding")
LOGS = "/api/v1/nodes/node-0/proxy/logs/pods/"


class OneLog:
    """A node with the log of one deleted pod."""

    async def list_directory(self, path: Sequence[str]) -> list[str] | None:
        return {0: ["team_p_1/"], 1: ["main/"]}.get(len(path))

    def read_file(self, path: Sequence[str], options: LogOptions) -> AsyncIterator[bytes] | None:
        return _hello() if tuple(path) == ("team_p_1", "main", "0.log") else None


async def _hello() -> AsyncIterator[bytes]:
    yield b"hello\n"


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving(mode=AuthorizationMode.RBAC) as server:
        server.api.node_log_source = OneLog()
        await server.client.create(NODES, None, {"metadata": {"name": "node-0"}})
        yield server


async def test_the_owner_of_the_cluster_lists_and_reads(server: Served) -> None:
    assert b'<a href="team_p_1/">team_p_1/</a>' in await server.client.get_raw(LOGS)
    assert await server.client.get_raw(f"{LOGS}team_p_1/main/0.log") == b"hello\n"


@pytest.mark.parametrize("path", ["nodes/node-1/proxy/logs/pods/", "nodes/node-0/proxy/pods", f"{LOGS[8:]}team_p_2/x"])
async def test_what_is_not_there_is_not_found(server: Served, path: str) -> None:
    with pytest.raises(NotFound):
        await server.client.get_raw(f"/api/v1/{path}")


async def test_a_tenant_who_reads_the_logs_of_pods_does_not_read_those_of_a_node(server: Served) -> None:
    tenant = KubeClient(InProcessTransport(server.api, user("amy")))
    await server.client.create(BINDINGS, "default", binding("b", "ClusterRole", "admin", ("User", "amy")))
    await server.client.create(CLUSTER_ROLES, None, role("logs", rule("core", "pods/log nodes", "get list")))
    await server.client.create(CLUSTER_BINDINGS, None, binding("c", "ClusterRole", "logs", ("User", "amy")))
    for path in (LOGS, f"{LOGS}team_p_1/main/0.log"):
        with pytest.raises(Forbidden, match='cannot get resource "nodes/proxy"'):
            await tenant.get_raw(path)
    await server.client.create(CLUSTER_ROLES, None, role("proxy", rule("core", "nodes/proxy", "get")))
    await server.client.create(CLUSTER_BINDINGS, None, binding("d", "ClusterRole", "proxy", ("User", "amy")))
    assert await tenant.get_raw(f"{LOGS}team_p_1/main/0.log") == b"hello\n"
