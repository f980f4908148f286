"""Tokens, impersonation and streams over HTTPS: a token may do what its account may."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pliant.embedded.apiserver.auth.tokens import ServiceAccountRef
from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from pliant.kube.resources import PODS
from tests.access.table import binding, role, rule
from tests.access.test_roles_and_bindings import BINDINGS, CLUSTER_BINDINGS, CLUSTER_ROLES, ROLES
from tests.embedded.serving import TOKEN, Served, pod, reachable, serving

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@dataclass(frozen=True)
class Site:
    server: Served
    url: str
    session: aiohttp.ClientSession

    async def ask(
        self, path: str, token: str, method: str = "GET", body: Any = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"Authorization": f"Bearer {token}", **names}
        async with self.session.request(method, self.url + path, headers=sent, json=body) as reply:
            return reply.status, await reply.json(content_type=None)

    def token(self, account: str = "trainer", namespace: str = "default") -> str:
        return self.server.api.tokens.issue(ServiceAccountRef(namespace=namespace, name=account))


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(mode=AuthorizationMode.RBAC) as server, reachable(server.api, tmp_path) as at:
        trust = await asyncio.to_thread(ssl.create_default_context, cadata=at.authority.decode())
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
            yield Site(server, at.url, session)


async def test_the_token_of_a_pod_may_do_what_its_account_may_and_the_owner_everything(site: Site) -> None:
    status, denied = await site.ask("/api/v1/namespaces/default/pods", site.token())
    who = "system:serviceaccount:default:trainer"
    words = f'pods is forbidden: User "{who}" cannot list resource "pods" in API group "" in the namespace "default"'
    assert (status, denied["message"], denied["reason"]) == (403, words, "Forbidden")
    account = {"kind": "ServiceAccount", "name": "trainer", "namespace": "default"}
    await site.server.client.create(BINDINGS, "default", {**binding("b", "ClusterRole", "view"), "subjects": [account]})
    assert (await site.ask("/api/v1/namespaces/default/pods", site.token()))[0] == 200
    assert (await site.ask("/api/v1/namespaces/kube-system/pods", site.token()))[0] == 403
    assert (await site.ask("/api/v1/secrets", TOKEN))[0] == 200
    assert (await site.ask("/api/v1/pods", "nonsense"))[0] == 401
    assert (await site.ask("/apis", site.token()))[0] == 200


async def test_the_token_of_a_pod_is_refused_when_the_pod_is_gone(site: Site) -> None:
    created = await site.server.client.create(PODS, "default", pod("p"))
    bound = ServiceAccountRef(namespace="default", name="default", pod_name="p", pod_uid=created["metadata"]["uid"])
    token = site.server.api.tokens.issue(bound)
    assert (await site.ask("/api", token))[0] == 200
    await site.server.client.delete(PODS, "default", "p", grace_period_seconds=0)
    assert (await site.ask("/api", token))[0] == 401
    await site.server.client.create(PODS, "default", pod("p"))
    assert (await site.ask("/api", token))[0] == 401


async def test_a_user_acts_as_another_only_with_the_right_to_impersonate(site: Site) -> None:
    as_amy = {"Impersonate_User": "amy", "Impersonate_Group": "staff"}
    status, answer = await site.ask(REVIEW, TOKEN, "POST", {}, **as_amy)
    expected = {"username": "amy", "groups": ["staff", "system:authenticated"]}
    assert (status, answer["status"]["userInfo"]) == (201, expected)
    assert (await site.ask("/api/v1/pods", TOKEN, **as_amy))[0] == 403
    status, answer = await site.ask(REVIEW, site.token(), "POST", {}, **as_amy)
    cannot = 'User "system:serviceaccount:default:trainer" cannot impersonate resource'
    assert (status, answer["message"]) == (
        403,
        f'users "amy" is forbidden: {cannot} "users" in API group "" at the cluster scope',
    )
    await site.server.client.create(CLUSTER_ROLES, None, role("imitate", rule("core", "users", "impersonate", "amy")))
    trainer = ("User", "system:serviceaccount:default:trainer")
    await site.server.client.create(CLUSTER_BINDINGS, None, binding("imitate", "ClusterRole", "imitate", trainer))
    status, answer = await site.ask(REVIEW, site.token(), "POST", {}, **as_amy)
    assert (status, answer["details"]) == (403, {"name": "staff", "kind": "groups"})
    status, answer = await site.ask(REVIEW, site.token(), "POST", {}, Impersonate_User="amy")
    assert (status, answer["status"]["userInfo"]["username"]) == (201, "amy")
    assert (await site.ask(REVIEW, site.token(), "POST", {}, Impersonate_User="bob"))[0] == 403
    assert (await site.ask(REVIEW, site.token(), "POST", {}, Impersonate_User="system:masters"))[0] == 403
    assert (await site.ask("/api", TOKEN, Impersonate_Group="system:masters"))[0] == 400


async def test_an_impersonated_service_account_is_in_its_groups(site: Site) -> None:
    _, answer = await site.ask(REVIEW, TOKEN, "POST", {}, Impersonate_User="system:serviceaccount:team:trainer")
    groups = ["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"]
    assert answer["status"]["userInfo"]["groups"] == groups


async def test_commands_in_a_pod_need_the_right_to_create_them_also_over_websocket(site: Site) -> None:
    await site.server.client.create(PODS, "default", pod("p"))
    trainer = ("User", "system:serviceaccount:default:trainer")
    await site.server.client.create(ROLES, "default", role("exec", rule("core", "pods/exec pods/portforward", "get")))
    await site.server.client.create(BINDINGS, "default", binding("exec", "Role", "exec", trainer))
    headers = {"Authorization": f"Bearer {site.token()}"}
    for stream in ("exec", "portforward"):
        url = f"{site.url}/api/v1/namespaces/default/pods/p/{stream}?command=ls"
        async with site.session.get(url, headers=headers) as reply:
            answer = await reply.json()
        assert (reply.status, f'cannot create resource "pods/{stream}"' in answer["message"]) == (403, True)
    verbs = {"rules": [rule("core", "pods/exec pods/portforward", "get create")]}
    await site.server.client.patch(ROLES, "default", "exec", verbs)
    async with site.session.get(url, headers=headers) as reply:
        assert reply.status != 403
