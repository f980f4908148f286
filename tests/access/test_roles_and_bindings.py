"""Roles and bindings are validated as by Kubernetes, take effect at once, and collect the rules of others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pliant.embedded.apiserver.auth.users import UserInfo, service_account_user
from pliant.embedded.apiserver.authorization.attributes import RequestAttributes
from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.storage.store import Store
from pliant.errors import Conflict, Forbidden, Invalid
from pliant.kube.client import KubeClient
from pliant.kube.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource
from tests.access.table import GROUP, binding, role, rule, user
from tests.embedded.serving import Served, pod, run_until, serving

ROLES = Resource(GROUP, "v1", "roles", "Role")
BINDINGS = Resource(GROUP, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = Resource(GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_BINDINGS = Resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
AMY = user("amy")


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving(mode=AuthorizationMode.RBAC) as server:
        yield server


def client_of(server: Served, who: UserInfo) -> KubeClient:
    return KubeClient(InProcessTransport(server.api, who))


async def may_list_pods(server: Served, who: UserInfo, namespace: str | None = "default") -> bool:
    try:
        await client_of(server, who).list(PODS, namespace)
    except Forbidden:
        return False
    return True


async def test_a_right_begins_with_its_binding_and_ends_with_it(server: Served) -> None:
    await server.client.create(BINDINGS, "default", binding("b", "Role", "reader", ("User", "amy")))
    assert not await may_list_pods(server, AMY)
    await server.client.create(ROLES, "default", role("reader", rule("core", "pods", "list")))
    assert await may_list_pods(server, AMY)
    await server.client.patch(ROLES, "default", "reader", {"rules": []})
    assert not await may_list_pods(server, AMY)
    await server.client.patch(ROLES, "default", "reader", {"rules": [rule("core", "pods", "list")]})
    assert await may_list_pods(server, AMY)
    await server.client.patch(BINDINGS, "default", "b", {"subjects": []})
    assert not await may_list_pods(server, AMY)
    await server.client.patch(BINDINGS, "default", "b", {"subjects": [{"kind": "User", "name": "amy"}]})
    assert await may_list_pods(server, AMY)
    await server.client.delete(BINDINGS, "default", "b")
    assert not await may_list_pods(server, AMY)


async def test_a_cluster_role_is_granted_in_one_namespace_or_in_all(server: Served) -> None:
    await server.client.create(NAMESPACES, None, {"metadata": {"name": "team"}})
    await server.client.create(BINDINGS, "team", binding("b", "ClusterRole", "view", ("Group", "staff")))
    bob = user("bob", "staff")
    assert [await may_list_pods(server, bob, each) for each in ("team", "default", None)] == [True, False, False]
    await server.client.create(CLUSTER_BINDINGS, None, binding("b", "ClusterRole", "view", ("User", "bob")))
    assert [await may_list_pods(server, bob, each) for each in ("team", "default", None)] == [True, True, True]


async def test_a_service_account_has_the_rights_of_its_namespace_and_name(server: Served) -> None:
    account = {"kind": "ServiceAccount", "name": "trainer"}  # the namespace is that of the binding
    await server.client.create(BINDINGS, "default", {**binding("b", "ClusterRole", "view"), "subjects": [account]})
    assert await may_list_pods(server, service_account_user("default", "trainer"))
    assert not await may_list_pods(server, service_account_user("default", "other"))
    assert not await may_list_pods(server, service_account_user("team", "trainer"))
    group = ("Group", "system:serviceaccounts:team")
    await server.client.create(BINDINGS, "default", binding("c", "ClusterRole", "view", group))
    assert await may_list_pods(server, service_account_user("team", "trainer"))


async def rules_of(server: Served, name: str) -> list[dict[str, Any]]:
    found = await server.client.get(CLUSTER_ROLES, None, name)
    return found.get("rules") or []


async def test_roles_with_the_label_are_added_to_view_edit_and_admin_and_taken_away_again(server: Served) -> None:
    jobs = rule("example.org", "jobs", "get")
    labels = {f"{GROUP}/aggregate-to-view": "true"}
    body = {**role("view-jobs", jobs), "metadata": {"name": "view-jobs", "labels": labels}}
    await server.client.create(BINDINGS, "default", binding("b", "ClusterRole", "admin", ("User", "amy")))

    def is_held(verb: str = "get") -> bool:
        wanted = RequestAttributes(AMY, verb, "example.org", "jobs", namespace="default")
        return server.api.authorizer.is_allowed(wanted)

    assert not is_held()
    await server.client.create(CLUSTER_ROLES, None, body)
    await run_until(is_held, "the rule reaches admin through edit and view")
    assert jobs in await rules_of(server, "view")
    await server.client.patch(CLUSTER_ROLES, None, "view-jobs", {"rules": [rule("example.org", "jobs", "get list")]})
    await run_until(lambda: is_held("list"), "the change follows")
    await server.client.patch(CLUSTER_ROLES, None, "view-jobs", {"metadata": {"labels": None}})
    await run_until(lambda: not is_held(), "without the label the rule is taken away")
    await server.client.patch(CLUSTER_ROLES, None, "view-jobs", {"metadata": {"labels": labels}})
    await run_until(is_held, "it comes back")
    await server.client.delete(CLUSTER_ROLES, None, "view-jobs")
    await run_until(lambda: not is_held(), "it goes with its role")


async def test_default_roles_are_repaired_at_the_next_start_unless_they_say_otherwise() -> None:
    store = Store.in_memory()
    async with serving(store, mode=AuthorizationMode.RBAC) as server:
        await server.client.patch(CLUSTER_ROLES, None, "system:discovery", {"rules": []})
        kept = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": []}
        await server.client.patch(CLUSTER_ROLES, None, "system:basic-user", kept)
        await server.client.delete(CLUSTER_BINDINGS, None, "cluster-admin")
        await server.client.patch(CLUSTER_BINDINGS, None, "system:discovery", {"subjects": []})
    async with serving(store, mode=AuthorizationMode.RBAC) as server:
        assert await rules_of(server, "system:discovery")
        assert not await rules_of(server, "system:basic-user")
        assert await server.client.get(CLUSTER_BINDINGS, None, "cluster-admin")
        repaired = await server.client.get(CLUSTER_BINDINGS, None, "system:discovery")
        assert [each["name"] for each in repaired["subjects"]] == ["system:authenticated"]


@pytest.mark.parametrize(
    ("resource", "body", "field"),
    [
        (ROLES, role("r", {"verbs": ["get"]}), "rules[0].apiGroups"),
        (ROLES, role("r", {"apiGroups": [""], "resources": ["pods"]}), "rules[0].verbs"),
        (ROLES, role("r", {"nonResourceURLs": ["/x"], "verbs": ["get"]}), "rules[0].nonResourceURLs"),
        (CLUSTER_ROLES, {"metadata": {"name": "r"}, "aggregationRule": {}}, "aggregationRule.clusterRoleSelectors"),
        (CLUSTER_ROLES, role("a/b"), "metadata.name"),
        (BINDINGS, binding("b", "Roll", "x"), "roleRef.kind"),
        (BINDINGS, {"metadata": {"name": "b"}}, "roleRef.name"),
        (BINDINGS, binding("b", "Role", "x", ("Usr", "amy")), "subjects[0].kind"),
        (BINDINGS, binding("b", "Role", "x", ("User", "")), "subjects[0].name"),
        (CLUSTER_BINDINGS, binding("b", "Role", "x"), "roleRef.kind"),
        (CLUSTER_BINDINGS, binding("b", "ClusterRole", "x", ("ServiceAccount", "a")), "subjects[0].namespace"),
    ],
)
async def test_an_invalid_role_or_binding_is_rejected_with_the_field(
    server: Served, resource: Resource, body: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await server.client.create(resource, "default" if resource.namespaced else None, body)
    assert field in [cause["field"] for cause in refused.value.details["causes"]]


async def test_a_binding_keeps_its_role(server: Served) -> None:
    await server.client.create(BINDINGS, "default", binding("b", "Role", "x"))
    with pytest.raises(Invalid, match="cannot change roleRef"):
        await server.client.patch(BINDINGS, "default", "b", {"roleRef": {"name": "y"}})


async def test_names_of_roles_may_contain_colons_and_capitals(server: Served) -> None:
    await server.client.create(ROLES, "default", role("system:Team:reader"))
    assert (await server.client.get(ROLES, "default", "system:Team:reader"))["metadata"]["name"] == "system:Team:reader"


async def test_a_node_reads_what_its_own_pods_refer_to_and_nothing_else(server: Served) -> None:
    node = client_of(server, user("system:node:n1", "system:nodes"))
    body = pod("p")
    body["spec"]["volumes"] = [
        {"name": "a", "secret": {"secretName": "own"}},
        {"name": "b", "projected": {"sources": [{"configMap": {"name": "settings"}}]}},
    ]
    body["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": "variables"}}]
    await server.client.create(PODS, "default", body)
    secrets, maps = Resource("", "v1", "secrets", "Secret"), Resource("", "v1", "configmaps", "ConfigMap")
    readable = ((secrets, "own"), (secrets, "variables"), (maps, "settings"))
    for resource, name in (*readable, (secrets, "other")):
        await server.client.create(resource, "default", {"metadata": {"name": name}})
    for resource, name in readable:
        with pytest.raises(Forbidden, match="no relationship found between node 'n1' and this object"):
            await node.get(resource, "default", name)
    await bind_to_node(server, "p", "n1")
    for resource, name in readable:
        assert await node.get(resource, "default", name)
        assert (await node.list(resource, "default", fields=f"metadata.name={name}")).items
    for resource, name in ((secrets, "other"), (maps, "own")):
        with pytest.raises(Forbidden):
            await node.get(resource, "default", name)
    await server.client.delete(PODS, "default", "p", grace_period_seconds=0)
    with pytest.raises(Forbidden):
        await node.get(secrets, "default", "own")


async def test_a_node_writes_the_status_of_its_own_pods_and_node_only(server: Served) -> None:
    node = client_of(server, user("system:node:n1", "system:nodes"))
    for name in ("n1", "n2"):
        await server.client.create(PODS, "default", pod(f"on-{name}"))
        await bind_to_node(server, f"on-{name}", name)
        resource = Resource("", "v1", "nodes", "Node", namespaced=False)
        await server.client.create(resource, None, {"metadata": {"name": name}})
        status = {"status": {"phase": "Running"}}
        if name == "n1":
            await node.patch(PODS, "default", "on-n1", status, subresource="status")
            await node.patch(resource, None, "n1", {"status": {}}, subresource="status")
            continue
        with pytest.raises(Forbidden, match=r"can only update pod status for pods with spec\.nodeName"):
            await node.patch(PODS, "default", "on-n2", status, subresource="status")
        with pytest.raises(Forbidden, match=r"can only delete pods with spec\.nodeName"):
            await node.delete(PODS, "default", "on-n2")
        with pytest.raises(Forbidden, match='node "n1" is not allowed to modify node "n2"'):
            await node.patch(resource, None, "n2", {"status": {}}, subresource="status")


async def bind_to_node(server: Served, name: str, node: str) -> None:
    target = {"target": {"kind": "Node", "name": node}, "metadata": {"name": name}}
    try:
        await server.client.create(PODS, "default", target, subresource="binding", name=name)
    except Conflict:
        raise AssertionError(f"{name} is bound already") from None


async def test_service_accounts_of_a_namespace_may_not_escape_it(server: Served) -> None:
    await server.client.create(NAMESPACES, None, {"metadata": {"name": "team"}})
    account = service_account_user("default", "default")
    await server.client.create(BINDINGS, "default", binding("b", "ClusterRole", "admin", ("User", account["username"])))
    own = client_of(server, account)
    await own.create(BINDINGS, "default", binding("c", "ClusterRole", "view", ("User", "amy")))
    with pytest.raises(Forbidden):
        await own.create(BINDINGS, "team", binding("c", "ClusterRole", "view", ("User", "amy")))
    with pytest.raises(Forbidden, match="not currently held"):
        await own.create(BINDINGS, "default", binding("d", "ClusterRole", "cluster-admin", ("User", "amy")))
    with pytest.raises(Forbidden):
        await own.create(CLUSTER_BINDINGS, None, binding("d", "ClusterRole", "view", ("User", "amy")))
    with pytest.raises(Forbidden):
        await own.list(SERVICE_ACCOUNTS, "team")
