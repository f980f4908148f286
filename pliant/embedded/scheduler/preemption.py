"""Which pods make way for one that matters more."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.embedded.object_views import PodView
from pliant.embedded.scheduler.cache import PodAssignment, SchedulerCache
from pliant.kube.scheduling.fit import effective_pod_requests, unschedulable_reasons

PREEMPT_NEVER = "Never"


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """A node on which a pod fits once these have left."""

    node: str
    victims: tuple[PodAssignment, ...]

    @property
    def cost(self) -> tuple[int, int, int, str]:
        """The less important the most important victim, and the fewer of them, the better."""
        priorities = [each.pod.spec.priority for each in self.victims]
        return max(priorities), len(priorities), sum(priorities), self.node


def find_preemption(pod: PodView, cache: SchedulerCache) -> PreemptionPlan | None:
    """The cheapest way to make room for a pod, if there is one; nobody of the same importance has to leave."""
    if pod.spec.preemption_policy == PREEMPT_NEVER or pod.spec.priority <= cache.lowest_priority:
        return None
    ways = [way for name in cache.nodes if (way := _find_preemption_on_node(name, pod, cache)) is not None]
    return min(ways, key=lambda way: way.cost, default=None)


def is_preemption_pending(pod: PodView, cache: SchedulerCache) -> bool:
    """Whether pods that were asked to make way for this one are still leaving."""
    promise = cache.nominated.get(pod.metadata.uid)
    return promise is not None and any(
        tenant.node == promise.node and tenant.pod.metadata.deletion_timestamp is not None
        for tenant in cache.assignments.values()
    )


def _find_preemption_on_node(node_name: str, pod: PodView, cache: SchedulerCache) -> PreemptionPlan | None:
    node, needed = cache.nodes[node_name], effective_pod_requests(pod.spec)
    if unschedulable_reasons(pod.spec, node):
        return None
    lesser = [
        each
        for each in cache.assignments.values()
        if each.node == node_name and each.pod.spec.priority < pod.spec.priority
    ]
    leaving = [each for each in lesser if each.pod.metadata.deletion_timestamp is not None]
    victims = sorted((each for each in lesser if each not in leaving), key=_victim_sort_key)
    if cache.insufficient_resources(pod, needed, node, excluded=lesser):
        return None
    for each in reversed(victims.copy()):
        spared = [other for other in victims if other is not each]
        if not cache.insufficient_resources(pod, needed, node, excluded=[*leaving, *spared]):
            victims = spared
    return PreemptionPlan(node_name, tuple(victims)) if victims else None


def _victim_sort_key(victim: PodAssignment) -> tuple[int, float, str]:
    """The most important last, and of equals the one that is there longest."""
    meta = victim.pod.metadata
    created = meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0
    return victim.pod.spec.priority, -created, meta.uid
