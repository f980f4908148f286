"""The disruption controller: writes the status of PodDisruptionBudgets."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from pliant.embedded.apiserver.admission.disruption_budgets import DisruptionBudgetStatus, label_selector_matches
from pliant.embedded.object_views import PodView
from pliant.embedded.retries import NON_RETRYABLE_API_ERRORS, patch_status
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import POD_DISRUPTION_BUDGETS
from pliant.kube.timestamps import format_timestamp
from pliant.runtime.clock import Clock

_BATCH_DELAY_SECONDS = 0.1

log = logging.getLogger(__name__)


class DisruptionBudgetView(msgspec.Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: dict[str, Any] = {}


class DisruptionBudgetController:
    """Keeps the status of budgets up to date; the eviction API counts healthy pods itself."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._budgets: dict[str, DisruptionBudgetView] = {}
        self._pods: dict[str, PodView] = {}
        self._written_counts: dict[str, dict[str, int]] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(_BATCH_DELAY_SECONDS)
            self._changed.clear()
            for budget in list(self._budgets.values()):
                await self._update_status(budget)

    def on_budget_change(self, old: DisruptionBudgetView | None, new: DisruptionBudgetView | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._budgets.pop(old.metadata.uid, None)
            self._written_counts.pop(old.metadata.uid, None)
        if new is not None:
            self._budgets[new.metadata.uid] = new
            self._changed.set()

    def on_pod_change(self, old: PodView | None, new: PodView | None) -> None:
        if old is not None:
            self._pods.pop(old.metadata.uid, None)
        if new is not None and not new.is_finished:
            self._pods[new.metadata.uid] = new
        if self._budgets:
            self._changed.set()

    async def _update_status(self, budget: DisruptionBudgetView) -> None:
        meta = budget.metadata
        status = self._compute_status(budget)
        counts = {
            "observedGeneration": meta.generation,
            "expectedPods": status.expected_pods,
            "currentHealthy": status.current_healthy,
            "desiredHealthy": status.desired_healthy,
            "disruptionsAllowed": status.disruptions_allowed,
        }
        if self._written_counts.get(meta.uid) == counts:
            return
        patch = {**counts, "conditions": [self._disruption_allowed_condition(counts)]}
        try:
            await patch_status(self._client, POD_DISRUPTION_BUDGETS, meta, patch)
        except NON_RETRYABLE_API_ERRORS as error:
            log.info("budget status not written", extra={"budget": meta.name, "error": str(error)})
        else:
            self._written_counts[meta.uid] = counts

    def _compute_status(self, budget: DisruptionBudgetView) -> DisruptionBudgetStatus:
        selector = budget.spec.get("selector")
        selected = [
            pod
            for pod in self._pods.values()
            if pod.metadata.namespace == budget.metadata.namespace
            and label_selector_matches(selector, pod.metadata.labels)
        ]
        healthy = sum(pod.is_ready and pod.metadata.deletion_timestamp is None for pod in selected)
        return DisruptionBudgetStatus.compute(budget.spec, expected_pods=len(selected), current_healthy=healthy)

    def _disruption_allowed_condition(self, counts: dict[str, int]) -> dict[str, Any]:
        is_allowed = counts["disruptionsAllowed"] > 0
        return {
            "type": "DisruptionAllowed",
            "status": "True" if is_allowed else "False",
            "reason": "SufficientPods" if is_allowed else "InsufficientPods",
            "message": "",
            "observedGeneration": counts["observedGeneration"],
            "lastTransitionTime": format_timestamp(self._clock.now()),
        }
