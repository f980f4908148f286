"""Scheduler cache: the pods and free resources of each node, and the choice of a node for a pod."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from pliant.embedded.object_views import PodView
from pliant.kube.objects import Node
from pliant.kube.scheduling.fit import effective_pod_requests, non_resource_rejections, preferred_affinity_score
from pliant.kube.scheduling.taints import DISCOURAGING_EFFECTS, untolerated_taints
from pliant.schemas.quantity import parse_quantity

ResourceAmounts = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class PodAssignment:
    pod: PodView
    node: str
    requests: ResourceAmounts


class SchedulerCache:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.assignments: dict[str, PodAssignment] = {}
        self.nominated: dict[str, PodAssignment] = {}
        """Pods that preempt others, by uid; their requests are reserved on the nominated node."""
        self._used: dict[str, Counter[str]] = defaultdict(Counter)
        self._priorities: Counter[int] = Counter()

    @property
    def lowest_priority(self) -> float:
        return min(self._priorities, default=float("inf"))

    def assign_pod(self, pod: PodView, node: str) -> None:
        """Add a pod to a node; its requests are counted once, however often it is assigned."""
        uid = pod.metadata.uid
        self.nominated.pop(uid, None)
        existing = self.assignments.get(uid)
        assignment = PodAssignment(pod, node, existing.requests if existing else effective_pod_requests(pod.spec))
        self.assignments[uid] = assignment
        if existing is None:
            self._used[node].update(assignment.requests)
            self._priorities[pod.spec.priority] += 1

    def release_pod(self, pod_uid: str) -> bool:
        """Remove a pod; return whether that frees resources."""
        nominated, assignment = self.nominated.pop(pod_uid, None), self.assignments.pop(pod_uid, None)
        if assignment is not None:
            self._used[assignment.node].subtract(assignment.requests)
            self._priorities -= Counter({assignment.pod.spec.priority: 1})
        return assignment is not None or nominated is not None

    def choose_node(self, pod: PodView, *, prefer_packed: bool = False) -> tuple[str | None, str]:
        """Return the best node for a pod, or None and why; `prefer_packed` chooses the fullest node that fits."""
        reason_counts: Counter[str] = Counter()
        candidates: list[tuple[int, int, Fraction, str]] = []
        requests, direction = effective_pod_requests(pod.spec), -1 if prefer_packed else 1
        for name, node in self.nodes.items():
            reasons = non_resource_rejections(pod.spec, node) or self.insufficient_resource_reasons(pod, requests, node)
            reason_counts.update(reasons)
            if not reasons:
                untolerated = len(untolerated_taints(node.spec.taints, pod.spec.tolerations, DISCOURAGING_EFFECTS))
                utilization = direction * self._utilization(node)
                candidates.append((untolerated, -preferred_affinity_score(pod.spec, node.metadata), utilization, name))
        if candidates:
            return min(candidates)[-1], ""
        if not self.nodes:
            return None, "no nodes available to schedule pods"
        summary = ", ".join(f"{count} {reason}" for reason, count in sorted(reason_counts.items()))
        return None, f"0/{len(self.nodes)} nodes are available: {summary}."

    def insufficient_resource_reasons(
        self, pod: PodView, requests: ResourceAmounts, node: Node, excluded: Iterable[PodAssignment] = ()
    ) -> list[str]:
        """Return a reason for each resource that a node lacks for a pod, with the `excluded` pods removed."""
        name, allocatable = node.metadata.name, node.status.allocatable
        used = self._used[name]
        if self.nominated or excluded:
            used = self._usage_excluding(pod, name, excluded)
        return [
            "Too many pods" if resource == "pods" else f"Insufficient {resource}"
            for resource, amount in requests.items()
            if amount and used[resource] + amount > parse_quantity(allocatable.get(resource, "0"))
        ]

    def _usage_excluding(self, pod: PodView, node_name: str, excluded: Iterable[PodAssignment]) -> Counter[str]:
        """Return the usage of a node without the excluded pods, plus nominated pods of equal or higher priority."""
        used = self._used[node_name].copy()
        for assignment in excluded:
            used.subtract(assignment.requests)
        for uid, assignment in self.nominated.items():
            if (
                assignment.node == node_name
                and uid != pod.metadata.uid
                and assignment.pod.spec.priority >= pod.spec.priority
            ):
                used.update(assignment.requests)
        return used

    def _utilization(self, node: Node) -> Fraction:
        used = self._used[node.metadata.name]
        shares = (
            Fraction(used[resource]) / total
            for resource, amount in node.status.allocatable.items()
            if (total := parse_quantity(amount))
        )
        return max(shares, default=Fraction(0))
