"""The embedded server allows and denies what a real one does, in the same words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from pliant.embedded.apiserver.authorization.default_roles import default_binding_manifests, default_role_manifests
from pliant.embedded.apiserver.authorization.rules import PolicyRule, parse_rules
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import Resource
from pliant.kube.transport.base import Transport
from pliant.runtime.clock import SystemClock
from tests.access.asking import answer, prepare, was_allowed
from tests.access.table import GROUP, USERS, trials
from tests.controlplane.cluster import API_SERVER, CONTROLLERS, ETCD, ControlPlane, started
from tests.controlplane.fixtures import require
from tests.embedded.serving import serving

pytestmark = pytest.mark.real

CLUSTER_ROLES = Resource(GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
OURS = ("system:aggregated-metrics-reader", "system:node", "system:kube-scheduler", "system:kube-controller-manager")
"""Roles for what the embedded cluster serves and does, which is less than Kubernetes."""


@pytest.fixture(scope="module")
def fresh() -> Iterator[ControlPlane]:
    """A control plane whose roles nobody has changed but its controllers."""
    require(ETCD, API_SERVER, CONTROLLERS)
    with started() as plane:
        yield plane


async def test_the_default_roles_are_those_of_kubernetes(fresh: ControlPlane) -> None:
    transport = transport_to(fresh)
    client = KubeClient(transport)
    for manifest in default_role_manifests():
        name = manifest["metadata"]["name"]
        if name not in OURS:
            found = await client.get(CLUSTER_ROLES, None, name)
            assert found.get("aggregationRule") == manifest.get("aggregationRule"), name
            assert found["metadata"]["labels"].items() == manifest["metadata"]["labels"].items(), name
            if "aggregationRule" not in manifest:
                assert singles(parse_rules(found["rules"])) == singles(parse_rules(manifest["rules"])), name
    for manifest in default_binding_manifests():
        resource = Resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
        found = await client.get(resource, None, manifest["metadata"]["name"])
        assert (found["roleRef"], found["subjects"]) == (manifest["roleRef"], manifest["subjects"])
    await transport.aclose()


async def test_both_servers_allow_and_deny_alike(fresh: ControlPlane) -> None:
    owner = transport_to(fresh)
    real = {name: transport_to(fresh, name, *user["groups"][:-1]) for name, user in USERS.items()}
    async with serving(mode=AuthorizationMode.RBAC) as server:
        for transport in (owner, server.transport):
            await prepare(transport)
        await wait_aggregated(KubeClient(owner))
        differing = []
        for trial in trials():
            there = await answer(real[trial.who], trial)
            here = await answer(InProcessTransport(server.api, USERS[trial.who]), trial)
            if (there != here and trial.same_words) or was_allowed(there) is not trial.allowed:
                differing.append(f"{trial}\n  real     {there}\n  embedded {here}")
    for transport in (owner, *real.values()):
        await transport.aclose()
    assert not differing, "\n".join(differing)


async def wait_aggregated(client: KubeClient) -> None:
    """Return when the controllers have filled the roles that collect others."""
    watch = client.watch(CLUSTER_ROLES, None, resource_version="0", fields="metadata.name=admin")
    async with asyncio.timeout(60), aclosing(watch):
        async for event in watch:
            if len((event.object or {}).get("rules") or ()) > 20:
                return


def singles(rules: tuple[PolicyRule, ...]) -> set[tuple[str, str, str]]:
    """Each verb with each resource or path."""
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule.verbs
        for group in rule.api_groups or ("",)
        for resource in rule.resources or rule.non_resource_urls
    }


def transport_to(plane: ControlPlane, user: str = "", *groups: str) -> Transport:
    kubeconfig = plane.kubeconfig_for(user, *groups) if user else plane.kubeconfig
    return create_transport(kubeconfig, None, SystemClock().now)
