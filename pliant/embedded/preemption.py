"""Which pods make way for one that matters more."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.embedded.room import Room, Tenant
from pliant.embedded.views import PodView
from pliant.kube.placing import needs_of, refusal

NEVER = "Never"


@dataclass(frozen=True, slots=True)
class Way:
    """A node on which a pod fits once these have left."""

    node: str
    victims: tuple[Tenant, ...]

    @property
    def cost(self) -> tuple[int, int, int, str]:
        """The less important the most important victim, and the fewer of them, the better."""
        priorities = [each.pod.spec.priority for each in self.victims]
        return max(priorities), len(priorities), sum(priorities), self.node


def way_for(pod: PodView, room: Room) -> Way | None:
    """The cheapest way to make room for a pod, if there is one; nobody of the same importance has to leave."""
    if pod.spec.preemption_policy == NEVER or pod.spec.priority <= room.lowest_priority:
        return None
    ways = [way for name in room.nodes if (way := _way_on(name, pod, room)) is not None]
    return min(ways, key=lambda way: way.cost, default=None)


def is_being_made(pod: PodView, room: Room) -> bool:
    """Whether pods that were asked to make way for this one are still leaving."""
    promise = room.promised.get(pod.metadata.uid)
    return promise is not None and any(
        tenant.node == promise.node and tenant.pod.metadata.deletion_timestamp is not None
        for tenant in room.tenants.values()
    )


def _way_on(name: str, pod: PodView, room: Room) -> Way | None:
    node, needed = room.nodes[name], needs_of(pod.spec)
    if refusal(pod.spec, node):
        return None
    lesser = [
        each for each in room.tenants.values() if each.node == name and each.pod.spec.priority < pod.spec.priority
    ]
    leaving = [each for each in lesser if each.pod.metadata.deletion_timestamp is not None]
    victims = sorted((each for each in lesser if each not in leaving), key=_importance)
    if room.lacks(pod, needed, node, without=lesser):
        return None
    for each in reversed(victims.copy()):
        spared = [other for other in victims if other is not each]
        if not room.lacks(pod, needed, node, without=[*leaving, *spared]):
            victims = spared
    return Way(name, tuple(victims)) if victims else None


def _importance(tenant: Tenant) -> tuple[int, float, str]:
    """The most important last, and of equals the one that is there longest."""
    meta = tenant.pod.metadata
    created = meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0
    return tenant.pod.spec.priority, -created, meta.uid
