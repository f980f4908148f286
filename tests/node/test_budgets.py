"""Budgets tell how many pods may go, as pods come and go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pliant.kube.resources import POD_DISRUPTION_BUDGETS, PODS
from tests.node.running import is_running, running
from tests.node.test_slices import seen


def allows(number: int, *, of: int) -> Any:
    """Whether a budget says that so many of so many may go."""
    return lambda found: (
        (found.get("status", {}).get("disruptionsAllowed"), found.get("status", {}).get("expectedPods")) == (number, of)
    )


async def test_a_budget_tells_how_many_may_go(tmp_path: Path) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec}
    async with running(tmp_path) as cluster:
        await cluster.client.create(POD_DISRUPTION_BUDGETS, "default", body)
        await seen(cluster, POD_DISRUPTION_BUDGETS, "web", allows(0, of=0))
        for name in ("one", "two"):
            await cluster.sh(name, "sleep 60", labels={"app": "web"})
            await cluster.until(name, is_running)
        await seen(cluster, POD_DISRUPTION_BUDGETS, "web", allows(1, of=2))
        await cluster.client.delete(PODS, "default", "one", grace_period_seconds=0)
        told = await seen(cluster, POD_DISRUPTION_BUDGETS, "web", allows(0, of=1))
        (condition,) = told["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("DisruptionAllowed", "False")
