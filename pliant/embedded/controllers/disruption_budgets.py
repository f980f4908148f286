"""Tells in PodDisruptionBudgets how many pods may go, as Kubernetes' disruption controller does."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import msgspec

from pliant.embedded.apiserver.admission.disruption_budgets import DisruptionBudgetStatus, label_selector_matches
from pliant.embedded.apiserver.handlers.object_lifecycle import format_timestamp
from pliant.embedded.object_views import PodView
from pliant.embedded.retries import REJECTION_ERRORS, with_retries
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import POD_DISRUPTION_BUDGETS
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH
from pliant.runtime.clock import Clock

_BATCH_DELAY = 0.1
"""Seconds in which changes are gathered."""

log = logging.getLogger(__name__)


class DisruptionBudgetView(msgspec.Struct, frozen=True, kw_only=True):
    """A budget."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}


class DisruptionController:
    """Keeps the status of budgets current; evictions themselves count anew each time."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._budgets: dict[str, DisruptionBudgetView] = {}
        self._pods: dict[str, PodView] = {}
        self._written_counts: dict[str, dict[str, int]] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(_BATCH_DELAY)
            self._changed.clear()
            for budget in list(self._budgets.values()):
                await self._update_status(budget)

    def on_budget_change(self, old: DisruptionBudgetView | None, new: DisruptionBudgetView | None) -> None:
        """Take in what became of a budget."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._budgets.pop(old.metadata.uid, None)
            self._written_counts.pop(old.metadata.uid, None)
        if new is not None:
            self._budgets[new.metadata.uid] = new
            self._changed.set()

    def on_pod_change(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        if old is not None:
            self._pods.pop(old.metadata.uid, None)
        if new is not None and not new.is_finished:
            self._pods[new.metadata.uid] = new
        if self._budgets:
            self._changed.set()

    async def _update_status(self, budget: DisruptionBudgetView) -> None:
        meta = budget.metadata
        standing = self._compute_status(budget)
        counts = {
            "observedGeneration": meta.generation,
            "expectedPods": standing.expected_pods,
            "currentHealthy": standing.current_healthy,
            "desiredHealthy": standing.desired_healthy,
            "disruptionsAllowed": standing.disruptions_allowed,
        }
        if self._written_counts.get(meta.uid) == counts:
            return
        patch = {
            "metadata": {"uid": meta.uid},
            "status": {**counts, "conditions": [self._disruption_allowed_condition(counts)]},
        }
        where = POD_DISRUPTION_BUDGETS, meta.namespace, meta.name
        write = partial(self._client.patch, *where, patch, content_type=STRATEGIC_MERGE_PATCH, subresource="status")
        try:
            await with_retries(write)
        except REJECTION_ERRORS as refusal:
            log.info("budget not told", extra={"budget": meta.name, "because": str(refusal)})
        else:
            self._written_counts[meta.uid] = counts

    def _compute_status(self, budget: DisruptionBudgetView) -> DisruptionBudgetStatus:
        selector = budget.spec.get("selector")
        meant = [
            pod
            for pod in self._pods.values()
            if pod.metadata.namespace == budget.metadata.namespace
            and label_selector_matches(selector, pod.metadata.labels)
        ]
        healthy = sum(pod.is_ready and pod.metadata.deletion_timestamp is None for pod in meant)
        return DisruptionBudgetStatus.compute(budget.spec, expected_pods=len(meant), current_healthy=healthy)

    def _disruption_allowed_condition(self, counts: dict[str, int]) -> dict[str, Any]:
        is_free = counts["disruptionsAllowed"] > 0
        return {
            "type": "DisruptionAllowed",
            "status": "True" if is_free else "False",
            "reason": "SufficientPods" if is_free else "InsufficientPods",
            "message": "",
            "observedGeneration": counts["observedGeneration"],
            "lastTransitionTime": format_timestamp(self._clock.now()),
        }
