"""Tells in PodDisruptionBudgets how many pods may go, as Kubernetes' disruption controller does."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import msgspec

from pliant.embedded.patience import TURNED_DOWN, patiently
from pliant.embedded.server.budgets import Standing, selects
from pliant.embedded.server.lifecycle import timestamp
from pliant.embedded.views import PodView
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import DISRUPTION_BUDGETS
from pliant.kube.transport import STRATEGIC_PATCH
from pliant.runtime.clock import Clock

_PAUSE = 0.1
"""Seconds in which changes are gathered."""

log = logging.getLogger(__name__)


class BudgetView(msgspec.Struct, frozen=True, kw_only=True):
    """A budget."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}


class BudgetKeeper:
    """Keeps the status of budgets current; evictions themselves count anew each time."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._budgets: dict[str, BudgetView] = {}
        self._pods: dict[str, PodView] = {}
        self._told: dict[str, dict[str, int]] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(_PAUSE)
            self._changed.clear()
            for budget in list(self._budgets.values()):
                await self._tell(budget)

    def budget_changed(self, old: BudgetView | None, new: BudgetView | None) -> None:
        """Take in what became of a budget."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._budgets.pop(old.metadata.uid, None)
            self._told.pop(old.metadata.uid, None)
        if new is not None:
            self._budgets[new.metadata.uid] = new
            self._changed.set()

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        if old is not None:
            self._pods.pop(old.metadata.uid, None)
        if new is not None and not new.is_finished:
            self._pods[new.metadata.uid] = new
        if self._budgets:
            self._changed.set()

    async def _tell(self, budget: BudgetView) -> None:
        meta = budget.metadata
        standing = self._standing(budget)
        counts = {
            "observedGeneration": meta.generation,
            "expectedPods": standing.expected,
            "currentHealthy": standing.healthy,
            "desiredHealthy": standing.desired,
            "disruptionsAllowed": standing.allowed,
        }
        if self._told.get(meta.uid) == counts:
            return
        patch = {"metadata": {"uid": meta.uid}, "status": {**counts, "conditions": [self._condition(counts)]}}
        where = DISRUPTION_BUDGETS, meta.namespace, meta.name
        write = partial(self._client.patch, *where, patch, content_type=STRATEGIC_PATCH, subresource="status")
        try:
            await patiently(write)
        except TURNED_DOWN as refusal:
            log.info("budget not told", extra={"budget": meta.name, "because": str(refusal)})
        else:
            self._told[meta.uid] = counts

    def _standing(self, budget: BudgetView) -> Standing:
        selector = budget.spec.get("selector")
        meant = [
            pod
            for pod in self._pods.values()
            if pod.metadata.namespace == budget.metadata.namespace and selects(selector, pod.metadata.labels)
        ]
        healthy = sum(pod.is_ready and pod.metadata.deletion_timestamp is None for pod in meant)
        return Standing.of(budget.spec, expected=len(meant), healthy=healthy)

    def _condition(self, counts: dict[str, int]) -> dict[str, Any]:
        is_free = counts["disruptionsAllowed"] > 0
        return {
            "type": "DisruptionAllowed",
            "status": "True" if is_free else "False",
            "reason": "SufficientPods" if is_free else "InsufficientPods",
            "message": "",
            "observedGeneration": counts["observedGeneration"],
            "lastTransitionTime": timestamp(self._clock.now()),
        }
