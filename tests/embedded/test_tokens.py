"""Tokens are given on request, for a while, to speak for a service account that is there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.embedded.serving import Served, serving

PATH = "/api/v1/namespaces/default/serviceaccounts/{}/token"


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving() as server:
        yield server


def token_request(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


async def test_a_token_speaks_for_its_account_until_its_time_is_over(server: Served) -> None:
    reply, answer = await server.call("POST", PATH.format("default"), token_request(expirationSeconds=600))
    assert (reply.status, answer["status"]["expirationTimestamp"]) == (201, "2030-01-01T00:10:00Z")
    token = answer["status"]["token"]
    user = server.api.tokens.authenticate(token)
    assert user is not None
    assert user["username"] == "system:serviceaccount:default:default"
    server.clock.advance(600)
    assert server.api.tokens.authenticate(token) is None


async def test_a_token_may_be_bound_to_a_pod(server: Served) -> None:
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "worker-0", "uid": "u"}
    _, answer = await server.call("POST", PATH.format("default"), token_request(boundObjectRef=bound))
    user = server.api.tokens.authenticate(answer["status"]["token"])
    assert user is not None
    assert user["extra"] == {
        "authentication.kubernetes.io/pod-name": ["worker-0"],
        "authentication.kubernetes.io/pod-uid": ["u"],
    }
    assert answer["spec"]["expirationSeconds"] == 3600


@pytest.mark.parametrize(
    ("account", "body", "status", "words"),
    [
        ("nobody", token_request(), 404, 'serviceaccounts "nobody" not found'),
        ("default", token_request(expirationSeconds=10), 422, "may not specify a duration less than 10 minutes"),
        ("default", {"kind": "Pod", "apiVersion": "v1"}, 400, "cannot be handled as a TokenRequest"),
    ],
)
async def test_what_cannot_be_given_is_refused(
    server: Served, account: str, body: dict[str, Any], status: int, words: str
) -> None:
    reply, answer = await server.call("POST", PATH.format(account), body)
    assert reply.status == status
    assert words in answer["message"]


async def test_a_token_is_not_read_back(server: Served) -> None:
    reply, _ = await server.call("GET", PATH.format("default"))
    assert reply.status == 405
