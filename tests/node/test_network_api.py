"""Pods reach the API server under their own names, and it knows them."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pliant.embedded.apiserver.auth.tokens import ServiceAccountRef, TokenIssuer
from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from pliant.embedded.kubelet.volumes import pod_credentials
from pliant.embedded.kubelet.volumes.pod_credentials import PodCredentials
from pliant.kube.resources import PODS, SERVICE_ACCOUNTS
from pliant.runtime.clock import SystemClock
from tests.node.running import eventually, running
from tests.virtual_time import ThreeClocks

PLAIN = """
import json, os, ssl, urllib.request
place = "/var/run/secrets/kubernetes.io/serviceaccount"
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
namespace, token = open(f"{place}/namespace").read(), open(f"{place}/token").read()
trust = ssl.create_default_context(cafile=f"{place}/ca.crt")
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust))
def ask(where, path, body=None):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return json.load(opener.open(urllib.request.Request(f"https://{where}{path}", body, headers)))
pods = ask(f"{host}:{port}", f"/api/v1/namespaces/{namespace}/pods")
print(*(pod["metadata"]["name"] for pod in pods["items"]))
who = ask("kubernetes.default.svc", "/apis/authentication.k8s.io/v1/selfsubjectreviews", b"{}")
print(who["status"]["userInfo"]["username"], *who["status"]["userInfo"]["groups"])
"""
OWN = """
import asyncio
from datetime import UTC, datetime
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import PODS, SERVICE_ACCOUNTS
async def main():
    transport = create_transport(None, None, lambda: datetime.now(UTC))
    print(*(pod["metadata"]["name"] for pod in (await KubeClient(transport).list(PODS, "default")).items))
    await transport.aclose()
asyncio.run(main())
"""


async def test_a_pod_lists_pods_if_its_service_account_may(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        command = [sys.executable, "-c", PLAIN]
        await cluster.pod("denied", [{"name": "main", "command": command}])
        assert (await cluster.finished("denied"))["status"]["phase"] == "Failed"
        assert "HTTP Error 403: Forbidden" in await cluster.output("denied")
        await cluster.client.delete(PODS, "default", "denied", grace_period_seconds=0)
        await cluster.client.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": "trainer"}})
        await cluster.grant("trainer", "view")
        await cluster.pod("asker", [{"name": "main", "command": command}], serviceAccountName="trainer")
        await cluster.finished("asker")
        groups = "system:serviceaccounts system:serviceaccounts:default system:authenticated"
        told = (await cluster.output("asker")).splitlines()
        assert told == ["asker", f"system:serviceaccount:default:trainer {groups}"]


async def test_a_pod_of_an_open_cluster_may_do_everything(tmp_path: Path) -> None:
    async with running(tmp_path, authorization_mode=AuthorizationMode.ALWAYS_ALLOW) as cluster:
        await cluster.pod("asker", [{"name": "main", "command": [sys.executable, "-c", PLAIN]}])
        assert (await cluster.finished("asker"))["status"]["phase"] == "Succeeded"


async def test_our_own_client_finds_the_cluster_it_runs_in(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        path = {"name": "PYTHONPATH", "value": str(Path(__file__).parents[2])}
        await cluster.grant("default", "view")
        await cluster.pod("asker", [{"name": "main", "command": [sys.executable, "-c", OWN], "env": [path]}])
        await cluster.finished("asker")
        assert (await cluster.output("asker")).strip() == "asker"


async def test_a_pod_that_wants_no_token_gets_none(tmp_path: Path) -> None:
    script = "ls /var/run/secrets/kubernetes.io/serviceaccount 2>/dev/null || echo nothing"
    async with running(tmp_path) as cluster:
        assert await cluster.ran("with", script) == "ca.crt\nnamespace\ntoken"
        assert await cluster.ran("without", script, automountServiceAccountToken=False) == "nothing"


async def test_a_volume_may_hold_a_token_for_somebody_else(tmp_path: Path) -> None:
    token = {"path": "vault/token", "audience": "vault", "expirationSeconds": 600}
    volume = {"name": "tokens", "projected": {"sources": [{"serviceAccountToken": token}]}}
    mounts = [{"name": "tokens", "mountPath": "/run/tokens"}]
    async with running(tmp_path) as cluster:
        container = {"name": "main", "command": ["cat", "/run/tokens/vault/token"], "volumeMounts": mounts}
        await cluster.pod("a", [container], volumes=[volume])
        assert (await cluster.finished("a"))["status"]["phase"] == "Succeeded"
        claims = json.loads(base64.urlsafe_b64decode((await cluster.output("a")).split(".")[1] + "=="))
    assert (claims["aud"], claims["exp"] - claims["iat"]) == (["vault"], 600)
    assert claims["sub"] == "system:serviceaccount:default:default"
    tokens = TokenIssuer(SystemClock())
    assert tokens.authenticate(tokens.issue(ServiceAccountRef(namespace="a", name="b"), audience="vault")) is None


def test_a_token_is_good_for_its_time_and_only_where_it_was_issued() -> None:
    clock = ThreeClocks()
    tokens = TokenIssuer(clock)
    token = tokens.issue(
        ServiceAccountRef(namespace="team", name="trainer", pod_name="p", pod_uid="u"), timedelta(minutes=10)
    )
    user = tokens.authenticate(token)
    assert user is not None
    assert user["username"] == "system:serviceaccount:team:trainer"
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    assert TokenIssuer(clock).authenticate(token) is None
    assert [tokens.authenticate(each) for each in ("", "x", "a.b.c", token[:-1], "." + token)] == [None] * 5
    clock.advance(600)
    assert tokens.authenticate(token) is None


async def test_a_token_is_renewed_before_its_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_credentials, "_RENEW_AT_LIFETIME_FRACTION", 0.01 / 3600)
    kept = PodCredentials(TokenIssuer(SystemClock()), b"authority", SystemClock())
    pod: dict[str, Any] = {"metadata": {"name": "p", "namespace": "team", "uid": "u"}, "spec": {}}
    kept.write_service_account(pod, tmp_path / "account")
    token = tmp_path / "account" / "token"
    first = token.read_text()
    await eventually(lambda: token.read_text() != first, what="it is renewed")
    kept.close()
    last = token.read_text()
    await asyncio.sleep(0.05)
    assert token.read_text() == last
