"""How much of each node is taken, and which node suits a pod best."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from pliant.embedded.object_views import PodView
from pliant.kube.objects import Node
from pliant.kube.quantity import parse_quantity
from pliant.kube.scheduling.affinity import preference_score
from pliant.kube.scheduling.fit import effective_pod_requests, unschedulable_reasons
from pliant.kube.scheduling.taints import DISCOURAGING_EFFECTS, untolerated_taints

ResourceAmounts = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class PodAssignment:
    """A pod that takes up room on a node, or has it reserved there."""

    pod: PodView
    node: str
    requests: ResourceAmounts


class SchedulerCache:
    """The nodes, their tenants, and the room kept for pods that others make way for."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.assignments: dict[str, PodAssignment] = {}
        self.nominated: dict[str, PodAssignment] = {}
        """Pods for which others were asked to leave, by uid."""
        self._used: dict[str, Counter[str]] = defaultdict(Counter)
        self._priorities: Counter[int] = Counter()

    @property
    def lowest_priority(self) -> float:
        """How important the least important tenant is."""
        return min(self._priorities, default=float("inf"))

    def assign_pod(self, pod: PodView, node: str) -> None:
        """Let a pod take up room; what it has already is not taken twice."""
        uid = pod.metadata.uid
        self.nominated.pop(uid, None)
        known = self.assignments.get(uid)
        tenant = PodAssignment(pod, node, known.requests if known else effective_pod_requests(pod.spec))
        self.assignments[uid] = tenant
        if known is None:
            self._used[node].update(tenant.requests)
            self._priorities[pod.spec.priority] += 1

    def release_pod(self, pod_uid: str) -> bool:
        """Let go of whatever a pod had; whether that was anything."""
        promised, tenant = self.nominated.pop(pod_uid, None), self.assignments.pop(pod_uid, None)
        if tenant is not None:
            self._used[tenant.node].subtract(tenant.requests)
            self._priorities -= Counter({tenant.pod.spec.priority: 1})
        return tenant is not None or promised is not None

    def choose_node(self, pod: PodView, *, prefer_packed: bool = False) -> tuple[str | None, str]:
        """The best node for a pod, or why there is none; `packed` prefers the fullest one that has room."""
        problems: Counter[str] = Counter()
        fitting: list[tuple[int, int, Fraction, str]] = []
        needed, direction = effective_pod_requests(pod.spec), -1 if prefer_packed else 1
        for name, node in self.nodes.items():
            lacks = unschedulable_reasons(pod.spec, node) or self.insufficient_resources(pod, needed, node)
            problems.update(lacks)
            if not lacks:
                discouraged = len(untolerated_taints(node.spec.taints, pod.spec.tolerations, DISCOURAGING_EFFECTS))
                load = direction * self._utilization(node)
                fitting.append((discouraged, -preference_score(pod.spec, node.metadata), load, name))
        if fitting:
            return min(fitting)[-1], ""
        reasons = ", ".join(f"{count} {problem}" for problem, count in sorted(problems.items()))
        count = len(self.nodes)
        return None, f"0/{count} nodes are available: {reasons or 'there are none'}."

    def insufficient_resources(
        self, pod: PodView, requests: ResourceAmounts, node: Node, excluded: Iterable[PodAssignment] = ()
    ) -> list[str]:
        """What a node has too little of for a pod, even when some of its tenants were gone."""
        name, has = node.metadata.name, node.status.allocatable
        used = self._used[name]
        if self.nominated or excluded:
            used = self._usage_excluding(pod, name, excluded)
        return [
            "Too many pods" if resource == "pods" else f"Insufficient {resource}"
            for resource, wanted in requests.items()
            if wanted and used[resource] + wanted > parse_quantity(has.get(resource, "0"))
        ]

    def _usage_excluding(self, pod: PodView, node_name: str, excluded: Iterable[PodAssignment]) -> Counter[str]:
        """What is taken of a node when some have left, and what is kept for pods that matter as much."""
        used = self._used[node_name].copy()
        for tenant in excluded:
            used.subtract(tenant.requests)
        for uid, tenant in self.nominated.items():
            if tenant.node == node_name and uid != pod.metadata.uid and tenant.pod.spec.priority >= pod.spec.priority:
                used.update(tenant.requests)
        return used

    def _utilization(self, node: Node) -> Fraction:
        """How full a node is, by its scarcest resource."""
        used = self._used[node.metadata.name]
        shares = (
            Fraction(used[resource]) / total
            for resource, has in node.status.allocatable.items()
            if (total := parse_quantity(has))
        )
        return max(shares, default=Fraction(0))
