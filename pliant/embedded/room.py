"""How much of each node is taken, and which node suits a pod best."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from pliant.embedded.affinity import is_wanted, liking
from pliant.embedded.amounts import amount
from pliant.embedded.taints import CORDONED, DISCOURAGES, KEEPS_OUT, untolerated
from pliant.embedded.views import ContainerView, PodView
from pliant.kube.objects import Node

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
        tenant = Tenant(pod, node, known.needs if known else needs(pod))
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
        needed, direction = needs(pod), -1 if packed else 1
        for name, node in self.nodes.items():
            lacks = refusal(pod, node) or self.lacks(pod, needed, node)
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


def refusal(pod: PodView, node: Node) -> list[str]:
    """Why a node does not take a pod, or the pod not the node: the first reason, as kube-scheduler tells it."""
    if node.spec.unschedulable and untolerated([CORDONED], pod.spec.tolerations, KEEPS_OUT):
        return ["node(s) were unschedulable"]
    if shunned := untolerated(node.spec.taints, pod.spec.tolerations, KEEPS_OUT):
        return [f"node(s) had untolerated taint {{{shunned[0].key}: {shunned[0].value}}}"]
    if not any(each.type == "Ready" and each.status == "True" for each in node.status.conditions):
        return ["node(s) were not ready"]
    if not is_wanted(pod.spec, node.metadata):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return []


def needs(pod: PodView) -> dict[str, Fraction]:
    """What a pod takes up: the sum of its containers and sidecars, or of a hungrier moment before they all run."""
    result: dict[str, Fraction] = {"pods": Fraction(1)}
    beside: Counter[str] = Counter()
    for container in pod.spec.init_containers:
        moment = beside.copy()
        moment.update(_requests(container))
        if container.restart_policy == "Always":
            beside = moment
        _raise(result, moment)
    for container in pod.spec.containers:
        beside.update(_requests(container))
    _raise(result, beside)
    return result


def _raise(result: dict[str, Fraction], moment: Mapping[str, int | Fraction]) -> None:
    for resource, value in moment.items():
        result[resource] = max(result.get(resource, Fraction(0)), Fraction(value))


def _requests(container: ContainerView) -> dict[str, Fraction]:
    asked = {**container.resources.limits, **container.resources.requests}
    return {resource: amount(value) for resource, value in asked.items()}
