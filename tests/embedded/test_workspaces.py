"""Only the owner of the cluster decides in which directory programs start; the operator copies it to pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pliant.embedded.apiserver.auth.users import service_account_user
from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.program_annotations import WORKSPACE_ANNOTATION
from pliant.errors import Forbidden
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS, Resource
from pliant.model import labels
from tests.access.table import GROUP, binding, role, rule
from tests.embedded.serving import WIDGETS, Served, create_widget_crd, owner_reference, pod, serving, widget

ROLES = Resource(GROUP, "v1", "roles", "Role")
BINDINGS = Resource(GROUP, "v1", "rolebindings", "RoleBinding")
HOME = {WORKSPACE_ANNOTATION: "/home/ada/job"}


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    """A server with a widget of the owner that has the annotation, and two accounts that may write widgets and pods."""
    async with serving(mode=AuthorizationMode.RBAC) as server:
        await create_widget_crd(server)
        mine = widget("mine")
        mine["metadata"]["annotations"] = HOME
        await server.client.create(WIDGETS, "default", mine)
        writing = rule("core", "pods", "create patch update"), rule("example.org", "widgets", "create patch update")
        await server.client.create(ROLES, "default", role("tenant", *writing))
        await server.client.create(
            ROLES, "default", role("operator", rule("example.org", "widgets/finalizers", "update"))
        )
        for name, roles in (("tenant", ["tenant"]), ("operator", ["tenant", "operator"])):
            account = {"kind": "ServiceAccount", "name": name}
            for each in roles:
                body = {**binding(f"{name}-{each}", "Role", each), "subjects": [account]}
                await server.client.create(BINDINGS, "default", body)
        yield server


def account(server: Served, name: str) -> KubeClient:
    return KubeClient(InProcessTransport(server.api, service_account_user("default", name)))


def dependent(owner: dict[str, Any], annotations: dict[str, str]) -> dict[str, Any]:
    return pod("p", annotations=annotations, ownerReferences=[owner_reference(owner, controller=True)])


def test_engine_and_cluster_name_the_annotation_alike() -> None:
    assert labels.WORKSPACE_ANNOTATION == WORKSPACE_ANNOTATION


async def test_others_than_the_owner_cannot_set_or_change_it(server: Served) -> None:
    tenant = account(server, "tenant")
    with pytest.raises(Forbidden, match="only the owner of the cluster may set the annotation pliant/workspace"):
        await tenant.create(PODS, "default", pod("p", annotations=HOME))
    theirs = widget("theirs")
    await tenant.create(WIDGETS, "default", theirs)
    for name in ("theirs", "mine"):
        change = {"metadata": {"annotations": {WORKSPACE_ANNOTATION: "/home/ada"}}}
        with pytest.raises(Forbidden):
            await tenant.patch(WIDGETS, "default", name, change)
        with pytest.raises(Forbidden):
            await tenant.apply(WIDGETS, "default", {"metadata": {"name": name, **change["metadata"]}}, force=True)
    current = await server.client.get(WIDGETS, "default", "theirs")
    current["metadata"]["annotations"] = HOME
    with pytest.raises(Forbidden):
        await tenant.replace(WIDGETS, "default", "theirs", current)


async def test_others_may_change_the_rest_of_an_object_that_has_it(server: Served) -> None:
    changed = await account(server, "tenant").patch(WIDGETS, "default", "mine", {"spec": {"size": 3}})
    assert changed["metadata"]["annotations"] == HOME


async def test_an_operator_copies_it_from_the_owner_of_a_pod_and_nothing_else(server: Served) -> None:
    operator, mine = account(server, "operator"), await server.client.get(WIDGETS, "default", "mine")
    with pytest.raises(Forbidden):
        await operator.create(PODS, "default", dependent(mine, {WORKSPACE_ANNOTATION: "/home/ada"}))
    with pytest.raises(Forbidden):
        await operator.create(PODS, "default", pod("p", annotations=HOME))
    created = await operator.create(PODS, "default", dependent(mine, HOME))
    assert created["metadata"]["annotations"] == HOME


async def test_an_owner_reference_alone_gives_no_right_to_copy_it(server: Served) -> None:
    mine = await server.client.get(WIDGETS, "default", "mine")
    with pytest.raises(Forbidden):
        await account(server, "tenant").create(PODS, "default", dependent(mine, HOME))
