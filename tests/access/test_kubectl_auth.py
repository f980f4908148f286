"""What `kubectl auth` says about the embedded cluster is true, and kubectl writes roles and bindings there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pliant.embedded.apiserver.auth.cluster_credentials import write_kubeconfig
from pliant.embedded.apiserver.auth.tokens import ServiceAccountRef
from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from tests.embedded.serving import reachable, serving
from tests.kubectl import find_kubectl

pytestmark = pytest.mark.kubectl


@dataclass(frozen=True)
class Kubectl:
    """kubectl as one user of a cluster."""

    program: str
    kubeconfig: Path

    async def __call__(self, *words: str, code: int = 0) -> str:
        process = await asyncio.create_subprocess_exec(
            *(self.program, "--kubeconfig", str(self.kubeconfig), *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], "HOME": str(self.kubeconfig.parent)},
        )
        output, _ = await process.communicate()
        assert process.returncode == code, output.decode()
        return output.decode().strip()


@pytest.fixture
async def users(tmp_path: Path) -> AsyncIterator[tuple[Kubectl, Kubectl]]:
    """The owner of a cluster, and the service account `default` of its namespace `default`."""
    program = find_kubectl()
    async with serving(mode=AuthorizationMode.RBAC) as server, reachable(server.api, tmp_path) as at:
        token = server.api.tokens.issue(ServiceAccountRef(namespace="default", name="default"))
        path = tmp_path / "account"
        write_kubeconfig(path, url=at.url, ca_certificate=at.authority, token=token)
        yield Kubectl(program, at.kubeconfig), Kubectl(program, path)


async def test_can_i_tells_the_truth_for_oneself_and_for_others(users: tuple[Kubectl, Kubectl]) -> None:
    owner, account = users
    assert await owner("auth", "can-i", "*", "*", "--all-namespaces") == "yes"
    assert await account("auth", "can-i", "list", "pods", code=1) == "no"
    as_account = "--as=system:serviceaccount:default:default"
    assert await owner("auth", "can-i", "list", "pods", as_account, code=1) == "no"
    said = await account("get", "pods", code=1)
    who = 'User "system:serviceaccount:default:default"'
    denied = f'{who} cannot list resource "pods" in API group "" in the namespace "default"'
    assert said == f"Error from server (Forbidden): pods is forbidden: {denied}"
    created = await owner("create", "role", "reader", "--verb=get,list", "--resource=pods,pods/log")
    assert created == "role.rbac.authorization.k8s.io/reader created"
    bound = await owner("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:default")
    assert bound == "rolebinding.rbac.authorization.k8s.io/reader created"
    assert await account("auth", "can-i", "list", "pods") == "yes"
    assert await owner("auth", "can-i", "list", "pods", as_account) == "yes"
    assert await account("auth", "can-i", "get", "pods", "--subresource=log") == "yes"
    assert await account("auth", "can-i", "list", "pods", "-n", "kube-system", code=1) == "no"
    assert await account("auth", "can-i", "get", "/metrics", code=1) == "no"
    assert await account("get", "pods") == "No resources found in default namespace."
    assert "reader" in await owner("get", "roles")
    assert "Role/reader" in await owner("get", "rolebindings")


async def test_the_list_of_rights_and_the_name_of_the_user_are_shown(users: tuple[Kubectl, Kubectl]) -> None:
    owner, account = users
    await owner("create", "clusterrole", "reader", "--verb=watch", "--resource=configmaps", "--resource-name=a")
    bind = ("create", "clusterrolebinding", "reader", "--clusterrole=reader", "--serviceaccount=default:default")
    await owner(*bind)
    listed = [line.split() for line in (await account("auth", "can-i", "--list")).splitlines()]
    assert ["configmaps", "[]", "[a]", "[watch]"] in listed
    assert ["selfsubjectreviews.authentication.k8s.io", "[]", "[]", "[create]"] in listed
    assert ["[/api/*]", "[]", "[get]"] in listed
    shown = await account("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    assert shown == "system:serviceaccount:default:default"
    assert "system:masters" in await owner("auth", "whoami")


async def test_kubectl_describes_changes_and_reconciles_roles(users: tuple[Kubectl, Kubectl], tmp_path: Path) -> None:
    owner, account = users
    manifest = tmp_path / "roles.yaml"
    manifest.write_text(ROLES)
    assert "role.rbac.authorization.k8s.io/r created" in await owner("apply", "-f", str(manifest))
    manifest.write_text(ROLES.replace("[get]", "[get, list]"))
    assert "role.rbac.authorization.k8s.io/r configured" in await owner("apply", "-f", str(manifest))
    assert "[get list]" in await owner("describe", "role", "r")
    assert "reconciled" in await owner("auth", "reconcile", "-f", str(manifest))
    said = await account("apply", "-f", str(manifest), code=1)
    assert 'cannot get resource "roles" in API group "rbac.authorization.k8s.io"' in said
    set_subject = ("set", "subject", "rolebinding", "b", "--user=amy")
    assert "subjects updated" in await owner(*set_subject)
    assert await owner("auth", "can-i", "list", "secrets", "--as=amy") == "yes"


ROLES = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: r, namespace: default}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: b, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
subjects: [{kind: User, name: bob, apiGroup: rbac.authorization.k8s.io}]
"""
