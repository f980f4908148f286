"""What two API servers should answer alike about budgets, slices and endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.controlplane.exchange import IN, SPACE, TABLE, Exchange

BUDGETS = f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{SPACE}/endpointslices"


def budget_exchanges() -> Iterator[Exchange]:
    """All of them, in order."""
    yield Exchange("create a budget", "POST", BUDGETS, _budget(minAvailable=1))
    yield Exchange("create a budget in percent", "POST", BUDGETS, _budget("share", maxUnavailable="50%"))
    yield Exchange("create a budget with two bounds", "POST", BUDGETS, _budget("n", minAvailable=1, maxUnavailable=1))
    yield Exchange("create a budget below nothing", "POST", BUDGETS, _budget("n", minAvailable=-1))
    yield Exchange("create a budget of a word", "POST", BUDGETS, _budget("n", maxUnavailable="half"))
    yield Exchange("get budgets as table", "GET", f"{BUDGETS}/b", accept=TABLE)
    yield Exchange("delete a budget", "DELETE", f"{BUDGETS}/b")
    yield Exchange("delete the other budget", "DELETE", f"{BUDGETS}/share")
    yield Exchange("create a slice", "POST", SLICES, _slice())
    yield Exchange("get a slice as table", "GET", f"{SLICES}/s", accept=TABLE)
    yield Exchange("delete a slice", "DELETE", f"{SLICES}/s")
    yield Exchange("create endpoints", "POST", f"{IN}/endpoints", _endpoints())
    yield Exchange("get endpoints", "GET", f"{IN}/endpoints/e")
    yield Exchange("get endpoints as table", "GET", f"{IN}/endpoints/e", accept=TABLE)
    yield Exchange("delete endpoints", "DELETE", f"{IN}/endpoints/e")


def _budget(name: str = "b", **spec: Any) -> dict[str, Any]:
    spec = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}


def _slice() -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "s", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.1.1"], "conditions": {"ready": True}}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    }


def _endpoints() -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    subset = {"addresses": [{"ip": "10.1.1.1"}], "notReadyAddresses": [{"ip": "10.1.1.2"}], "ports": ports}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e"}, "subsets": [subset]}
