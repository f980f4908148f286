"""Preemption: which pods of lower priority are deleted to make room for a pending pod."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.embedded.object_views import PodView
from pliant.embedded.scheduler.cache import PodAssignment, SchedulerCache
from pliant.kube.scheduling.fit import effective_pod_requests, non_resource_rejections

PREEMPT_NEVER = "Never"


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    node: str
    victims: tuple[PodAssignment, ...]

    @property
    def cost(self) -> tuple[int, int, int, str]:
        """Return a sort key: the highest victim priority, then the number of victims."""
        priorities = [each.pod.spec.priority for each in self.victims]
        return max(priorities), len(priorities), sum(priorities), self.node


def find_preemption(pod: PodView, cache: SchedulerCache) -> PreemptionPlan | None:
    """Return the preemption with the lowest cost; victims have a lower priority than the pod."""
    if pod.spec.preemption_policy == PREEMPT_NEVER or pod.spec.priority <= cache.lowest_priority:
        return None
    plans = [plan for name in cache.nodes if (plan := _find_preemption_on_node(name, pod, cache)) is not None]
    return min(plans, key=lambda plan: plan.cost, default=None)


def is_preemption_pending(pod: PodView, cache: SchedulerCache) -> bool:
    """Return whether victims of this pod are still terminating."""
    nomination = cache.nominated.get(pod.metadata.uid)
    return nomination is not None and any(
        assignment.node == nomination.node and assignment.pod.metadata.deletion_timestamp is not None
        for assignment in cache.assignments.values()
    )


def _find_preemption_on_node(node_name: str, pod: PodView, cache: SchedulerCache) -> PreemptionPlan | None:
    node, requests = cache.nodes[node_name], effective_pod_requests(pod.spec)
    if non_resource_rejections(pod.spec, node):
        return None
    lower_priority = [
        each
        for each in cache.assignments.values()
        if each.node == node_name and each.pod.spec.priority < pod.spec.priority
    ]
    terminating = [each for each in lower_priority if each.pod.metadata.deletion_timestamp is not None]
    victims = sorted((each for each in lower_priority if each not in terminating), key=_victim_sort_key)
    if cache.insufficient_resource_reasons(pod, requests, node, excluded=lower_priority):
        return None
    for each in reversed(victims.copy()):
        remaining = [other for other in victims if other is not each]
        if not cache.insufficient_resource_reasons(pod, requests, node, excluded=[*terminating, *remaining]):
            victims = remaining
    return PreemptionPlan(node_name, tuple(victims)) if victims else None


def _victim_sort_key(victim: PodAssignment) -> tuple[int, float, str]:
    """Return a key by which the highest priority sorts last, and among equals the oldest pod."""
    meta = victim.pod.metadata
    created = meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0
    return victim.pod.spec.priority, -created, meta.uid
