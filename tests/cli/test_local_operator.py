"""The operator of a local cluster has the rights that `pliant install` grants on a real one, and no others."""

from __future__ import annotations

import pytest

from pliant.cli.cluster.local_operator import create_operator_client
from pliant.cli.cluster.operator_manifests import OperatorInstallation, operator_deployment_manifests
from pliant.embedded.apiserver.auth.users import service_account_user
from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.errors import Forbidden
from pliant.kube.resources import PODS, SECRETS, Resource
from pliant.kube.transport.base import Transport
from tests.embedded.serving import Served, pod, serving

CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)


class Local:
    """What the command needs of a local cluster."""

    def __init__(self, server: Served) -> None:
        self._server = server

    def transport_for_account(self, namespace: str, name: str) -> Transport:
        return InProcessTransport(self._server.api, service_account_user(namespace, name))


async def test_the_local_operator_has_the_cluster_roles_of_an_installation() -> None:
    async with serving(mode=AuthorizationMode.RBAC) as server:
        for _ in range(2):  # the second time as after a restart
            client = await create_operator_client(Local(server), server.client)  # type: ignore[arg-type]
        installed = [
            each for each in operator_deployment_manifests(OperatorInstallation()) if each["kind"] == "ClusterRole"
        ]
        assert len(installed) == 3
        for manifest in installed:
            stored = await server.client.get(CLUSTER_ROLES, None, manifest["metadata"]["name"])
            assert stored["rules"] == manifest["rules"]
        assert (await client.create(PODS, "default", pod("a")))["metadata"]["name"] == "a"
        for resource, namespace in ((SECRETS, "default"), (SECRETS, None)):
            with pytest.raises(Forbidden, match="pliant-operator"):
                await client.list(resource, namespace)


async def test_roles_of_an_earlier_version_are_updated() -> None:
    async with serving(mode=AuthorizationMode.RBAC) as server:
        name = "pliant-operator.pliant-system"
        old = {"metadata": {"name": name}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
        await server.client.create(CLUSTER_ROLES, None, old)
        client = await create_operator_client(Local(server), server.client)  # type: ignore[arg-type]
        with pytest.raises(Forbidden):
            await client.list(SECRETS)
