"""What the hostile campaigns found, one request each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pliant.kube.resources import PODS
from tests.embedded.serving import WIDGETS, Served, create_widget_crd, pod, serving, widget

PATH = "/api/v1/namespaces/default"


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving() as running:
        await create_widget_crd(running)
        await running.client.create(PODS, "default", pod("a"))
        await running.client.create(WIDGETS, "default", widget("a", size=1, colour="red"))
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
        await running.call("POST", f"{PATH}/serviceaccounts", account)
        yield running


def order(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, **fields}


ORDERS = {
    "a binding to text": ("POST", f"{PATH}/pods/a/binding", order("v1", "Binding", target="node-0")),
    "a binding to a node with a number": ("POST", f"{PATH}/pods/a/binding", order("v1", "Binding", target={"name": 5})),
    "a binding with text as metadata": ("POST", f"{PATH}/bindings", order("v1", "Binding", metadata="a", target={})),
    "an eviction with text as metadata": (
        "POST",
        f"{PATH}/pods/a/eviction",
        order("policy/v1", "Eviction", metadata="a"),
    ),
    "an eviction with text as options": (
        "POST",
        f"{PATH}/pods/a/eviction",
        order("policy/v1", "Eviction", deleteOptions="now"),
    ),
    "a deletion with text as preconditions": (
        "DELETE",
        f"{PATH}/pods/a",
        order("v1", "DeleteOptions", preconditions="uid"),
    ),
    "a token for text": (
        "POST",
        f"{PATH}/serviceaccounts/a/token",
        order("authentication.k8s.io/v1", "TokenRequest", spec="me"),
    ),
    "a token bound to text": (
        "POST",
        f"{PATH}/serviceaccounts/a/token",
        order("authentication.k8s.io/v1", "TokenRequest", spec={"boundObjectRef": "a"}),
    ),
    "a scale with text as spec": (
        "PUT",
        WIDGETS.path("default", "a", "scale"),
        order("autoscaling/v1", "Scale", metadata={"name": "a"}, spec="big"),
    ),
}


@pytest.mark.parametrize(("method", "path", "body"), ORDERS.values(), ids=ORDERS)
async def test_an_order_with_a_wrong_type_is_refused(server: Served, method: str, path: str, body: Any) -> None:
    reply, _ = await server.call(method, path, body)
    assert reply.status in (400, 404, 422), reply.body


@pytest.mark.parametrize("number", [2**64, 10**30])
async def test_a_version_that_is_no_64_bit_number_is_refused(server: Served, number: int) -> None:
    reply, status = await server.call("GET", f"{PATH}/pods", resourceVersion=str(number))
    assert (reply.status, status["reason"]) == (400, "BadRequest")
    assert "value out of range" in status["message"]
