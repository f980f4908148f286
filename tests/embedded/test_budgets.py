"""A PodDisruptionBudget holds evictions back that would leave too few pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pliant.embedded.apiserver.admission.disruption_budgets import DisruptionBudgetStatus, label_selector_matches
from pliant.errors import Invalid
from pliant.kube.resources import POD_DISRUPTION_BUDGETS, PODS
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH
from tests.embedded.serving import Served, pod, serving
from tests.embedded.test_eviction import eviction
from tests.embedded.test_kubectl import Kubectl, kubectl

__all__ = ["kubectl"]


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    """Three pods on a node, all ready."""
    async with serving() as server:
        for name in ("a", "b", "c"):
            await make_pod(server, name)
        yield server


async def make_pod(server: Served, name: str) -> None:
    body = pod(name)
    body["metadata"]["labels"] = {"app": "web"}
    await server.client.create(PODS, "default", body)
    bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "n"}}
    await server.client.create(PODS, "default", bind, subresource="binding", name=name)
    await set_ready(server, name, "True")


async def set_ready(server: Served, name: str, ready: str) -> None:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
    patch = {"status": status}
    await server.client.patch(PODS, "default", name, patch, content_type=STRATEGIC_MERGE_PATCH, subresource="status")


async def create_budget(server: Served, name: str = "web", **spec: Any) -> None:
    spec = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
    await server.client.create(POD_DISRUPTION_BUDGETS, "default", body)


async def evict(server: Served, name: str) -> tuple[int, dict[str, Any]]:
    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
    reply, status = await server.call("POST", path, eviction(name))
    return reply.status, status


@pytest.mark.parametrize("spec", [{"minAvailable": 2}, {"maxUnavailable": 1}, {"minAvailable": "50%"}])
async def test_only_so_many_pods_are_evicted_as_a_budget_allows(server: Served, spec: dict[str, Any]) -> None:
    await create_budget(server, **spec)
    assert (await evict(server, "a"))[0] == 201
    code, told = await evict(server, "b")
    assert (code, told["reason"]) == (429, "TooManyRequests")
    assert told["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
    }
    assert told["details"] == {"causes": [cause]}
    # One that leaves already may be asked again, and a plain deletion asks nobody.
    assert (await evict(server, "a"))[0] == 201
    await server.client.delete(PODS, "default", "b")


async def test_pods_that_serve_nobody_cost_no_budget(server: Served) -> None:
    await create_budget(server, minAvailable=2)
    await set_ready(server, "c", "False")
    assert (await evict(server, "c"))[0] == 201
    assert (await evict(server, "a"))[0] == 429
    await set_ready(server, "b", "False")
    assert (await evict(server, "b"))[0] == 429  # there are too few as it is
    await server.client.patch(
        POD_DISRUPTION_BUDGETS, "default", "web", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
    )
    assert (await evict(server, "b"))[0] == 201


async def test_a_pod_with_two_budgets_is_not_evicted(server: Served) -> None:
    await create_budget(server, minAvailable=0)
    await create_budget(server, "other", minAvailable=0)
    code, told = await evict(server, "a")
    assert code == 500
    assert "more than one PodDisruptionBudget" in told["message"]


async def test_budgets_that_make_no_sense_are_refused(server: Served) -> None:
    for spec, words in (
        ({"minAvailable": 1, "maxUnavailable": 1}, "cannot be both set"),
        ({"minAvailable": -1}, "greater than or equal to 0"),
        ({"maxUnavailable": "half"}, "a valid percent string must be a numeric string"),
    ):
        with pytest.raises(Invalid, match=words):
            await create_budget(server, **spec)


async def test_kubectl_makes_and_shows_budgets(kubectl: Kubectl) -> None:
    await kubectl("create", "pdb", "web", "--selector=app=web,tier in (a,b)", "--min-available=50%")
    kept = await kubectl.client.get(POD_DISRUPTION_BUDGETS, "default", "web")
    assert kept["spec"]["minAvailable"] == "50%"
    assert kept["spec"]["selector"]["matchLabels"] == {"app": "web"}
    shown = (await kubectl("get", "pdb")).splitlines()
    assert shown[0].split() == ["NAME", "MIN", "AVAILABLE", "MAX", "UNAVAILABLE", "ALLOWED", "DISRUPTIONS", "AGE"]
    assert shown[1].split()[:4] == ["web", "50%", "N/A", "0"]


@pytest.mark.parametrize(
    ("spec", "expected", "healthy", "allowed"),
    [
        ({"minAvailable": 2}, 3, 3, 1),
        ({"minAvailable": 2}, 3, 1, 0),
        ({"minAvailable": "34%"}, 3, 3, 1),
        ({"minAvailable": 0}, 0, 0, 0),
        ({"maxUnavailable": 0}, 3, 3, 0),
        ({"maxUnavailable": "34%"}, 3, 3, 2),
        ({"maxUnavailable": 9}, 3, 3, 3),
        ({}, 2, 2, 2),
    ],
)
def test_what_is_allowed_follows_from_the_bounds(
    spec: dict[str, Any], expected: int, healthy: int, allowed: int
) -> None:
    assert (
        DisruptionBudgetStatus.compute(spec, expected_pods=expected, current_healthy=healthy).disruptions_allowed
        == allowed
    )


def test_selectors_mean_what_their_terms_say() -> None:
    labels = {"a": "1", "b": "2"}

    def term(operator: str, key: str, *values: str) -> dict[str, Any]:
        return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}

    assert label_selector_matches({}, labels)
    assert not label_selector_matches(None, labels)
    assert label_selector_matches({"matchLabels": {"a": "1"}}, labels)
    assert not label_selector_matches({"matchLabels": {"a": "2"}}, labels)
    assert label_selector_matches(term("In", "a", "0", "1"), labels)
    assert not label_selector_matches(term("In", "c", "1"), labels)
    assert label_selector_matches(term("NotIn", "c", "1"), labels)
    assert label_selector_matches(term("Exists", "b"), labels)
    assert label_selector_matches(term("DoesNotExist", "c"), labels)
    assert not label_selector_matches(term("Near", "a"), labels)
