"""How much of each node is taken, and which node suits a pod best."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from pliant.embedded.views import PodView
from pliant.kube.affinity import liking
from pliant.kube.amounts import amount
from pliant.kube.objects import Node
from pliant.kube.placing import needs_of, refusal
from pliant.kube.taints import DISCOURAGES, untolerated

Amounts = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod that takes up room on a node, or has it reserved there."""

    pod: PodView
    node: str
    needs: Amounts


class Room:
    """The nodes, their tenants, and the room kept for pods that others make way for."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.tenants: dict[str, Tenant] = {}
        self.promised: dict[str, Tenant] = {}
        """Pods for which others were asked to leave, by uid."""
        self._used: dict[str, Counter[str]] = defaultdict(Counter)
        self._priorities: Counter[int] = Counter()

    @property
    def lowest_priority(self) -> float:
        """How important the least important tenant is."""
        return min(self._priorities, default=float("inf"))

    def put(self, pod: PodView, node: str) -> None:
        """Let a pod take up room; what it has already is not taken twice."""
        uid = pod.metadata.uid
        self.promised.pop(uid, None)
        known = self.tenants.get(uid)
        tenant = Tenant(pod, node, known.needs if known else needs_of(pod.spec))
        self.tenants[uid] = tenant
        if known is None:
            self._used[node].update(tenant.needs)
            self._priorities[pod.spec.priority] += 1

    def free(self, uid: str) -> bool:
        """Let go of whatever a pod had; whether that was anything."""
        promised, tenant = self.promised.pop(uid, None), self.tenants.pop(uid, None)
        if tenant is not None:
            self._used[tenant.node].subtract(tenant.needs)
            self._priorities -= Counter({tenant.pod.spec.priority: 1})
        return tenant is not None or promised is not None

    def choice(self, pod: PodView, *, packed: bool = False) -> tuple[str | None, str]:
        """The best node for a pod, or why there is none; `packed` prefers the fullest one that has room."""
        problems: Counter[str] = Counter()
        fitting: list[tuple[int, int, Fraction, str]] = []
        needed, direction = needs_of(pod.spec), -1 if packed else 1
        for name, node in self.nodes.items():
            lacks = refusal(pod.spec, node) or self.lacks(pod, needed, node)
            problems.update(lacks)
            if not lacks:
                discouraged = len(untolerated(node.spec.taints, pod.spec.tolerations, DISCOURAGES))
                load = direction * self._load(node)
                fitting.append((discouraged, -liking(pod.spec, node.metadata), load, name))
        if fitting:
            return min(fitting)[-1], ""
        reasons = ", ".join(f"{count} {problem}" for problem, count in sorted(problems.items()))
        count = len(self.nodes)
        return None, f"0/{count} nodes are available: {reasons or 'there are none'}."

    def lacks(self, pod: PodView, needed: Amounts, node: Node, without: Iterable[Tenant] = ()) -> list[str]:
        """What a node has too little of for a pod, even when some of its tenants were gone."""
        name, has = node.metadata.name, node.status.allocatable
        used = self._used[name]
        if self.promised or without:
            used = self._used_without(pod, name, without)
        return [
            "Too many pods" if resource == "pods" else f"Insufficient {resource}"
            for resource, wanted in needed.items()
            if wanted and used[resource] + wanted > amount(has.get(resource, "0"))
        ]

    def _used_without(self, pod: PodView, node: str, without: Iterable[Tenant]) -> Counter[str]:
        """What is taken of a node when some have left, and what is kept for pods that matter as much."""
        used = self._used[node].copy()
        for tenant in without:
            used.subtract(tenant.needs)
        for uid, tenant in self.promised.items():
            if tenant.node == node and uid != pod.metadata.uid and tenant.pod.spec.priority >= pod.spec.priority:
                used.update(tenant.needs)
        return used

    def _load(self, node: Node) -> Fraction:
        """How full a node is, by its scarcest resource."""
        used = self._used[node.metadata.name]
        shares = (
            Fraction(used[resource]) / total
            for resource, has in node.status.allocatable.items()
            if (total := amount(has))
        )
        return max(shares, default=Fraction(0))
