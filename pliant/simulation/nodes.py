"""The nodes of a simulated cluster, and the choice of a node for a pod.

Nodes have an integer score from 0 (full) to 100 (empty): the mean free fraction of CPU, memory and devices, like
the default of kube-scheduler. Nodes are kept in a bucket per score with an upper bound of the free resources in
it, so that the best node is found without a search over all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pliant.autoscale.model import PodShape, ResourceAmounts
from pliant.simulation.trace import NodeClass

IndexedRequests = tuple[tuple[int, int], ...] | None
"""Resource positions and amounts; None if no node has one of the resources."""


class NodePool:
    """Nodes of one class in buckets by score."""

    __slots__ = ("allocatable", "max_free_by_score", "nodes_by_score", "scored_resources")

    def __init__(self, allocatable: Sequence[int], scored_resources: Sequence[int]) -> None:
        self.allocatable = allocatable
        self.scored_resources = tuple(position for position in scored_resources if allocatable[position])
        self.nodes_by_score: list[dict[int, None]] = [{} for _ in range(101)]
        self.max_free_by_score = [[0] * len(allocatable) for _ in range(101)]
        """Upper bounds of the free resources in each bucket."""

    def add_node(self, node: int, score: int, free: Sequence[int]) -> None:
        self.nodes_by_score[score][node] = None
        max_free = self.max_free_by_score[score]
        for position, amount in enumerate(free):
            if amount > max_free[position]:
                max_free[position] = amount

    def score_free_resources(self, free: Sequence[int]) -> int:
        allocatable = self.allocatable
        total = 0
        for position in self.scored_resources:
            total += free[position] * 100 // allocatable[position]
        return total // (len(self.scored_resources) or 1)


class SimulatedNodes:
    """Tracks the free resources of nodes and finds nodes for pods, deterministically."""

    def __init__(self, node_classes: Iterable[NodeClass], *, is_bin_packing: bool = False) -> None:
        classes = tuple(node_classes)
        self.resources = tuple(sorted({name for node_class in classes for name in node_class.allocatable}))
        self._resource_index = {name: position for position, name in enumerate(self.resources)}
        scored = [position for position, name in enumerate(self.resources) if name != "pods"]
        self._score_order = range(101) if is_bin_packing else range(100, -1, -1)
        self.node_names: list[str] = []
        self.free: list[list[int]] = []
        self.allocatable: list[ResourceAmounts] = []
        self._pools: list[NodePool] = []
        self._pool_of: list[NodePool] = []
        self._scores: list[int] = []
        for node_class in classes:
            self._add_node_class(node_class, scored)
        self.total = dict.fromkeys(self.resources, 0)
        for allocatable in self.allocatable:
            for name, amount in allocatable.items():
                self.total[name] += amount

    def _add_node_class(self, node_class: NodeClass, scored_resources: Sequence[int]) -> None:
        allocatable = [node_class.allocatable.get(name, 0) for name in self.resources]
        pool = NodePool(allocatable, scored_resources)
        self._pools.append(pool)
        for index in range(node_class.count):
            node = len(self.node_names)
            self.node_names.append(f"{node_class.name}-{index}")
            self.free.append(list(allocatable))
            self.allocatable.append(node_class.allocatable)
            self._pool_of.append(pool)
            self._scores.append(pool.score_free_resources(allocatable))
            pool.add_node(node, self._scores[node], self.free[node])

    def index_requests(self, shape: PodShape) -> IndexedRequests:
        if any(name not in self._resource_index for name, _ in shape.requests):
            return None
        return tuple((self._resource_index[name], amount) for name, amount in shape.requests)

    def has_room(self, node: int, indexed_requests: IndexedRequests) -> bool:
        if indexed_requests is None:
            return False
        free = self.free[node]
        return all(free[position] >= amount for position, amount in indexed_requests)

    def best_node(self, indexed_requests: IndexedRequests) -> int | None:
        if indexed_requests is None:
            return None
        candidates = [
            candidate
            for pool in self._pools
            if (candidate := self._best_node_in_pool(pool, indexed_requests)) is not None
        ]
        return min(candidates)[2] if candidates else None

    def _best_node_in_pool(
        self, pool: NodePool, indexed_requests: tuple[tuple[int, int], ...]
    ) -> tuple[int, int, int] | None:
        if any(pool.allocatable[position] < amount for position, amount in indexed_requests):
            return None
        nodes_by_score, max_free_by_score = pool.nodes_by_score, pool.max_free_by_score
        for score in self._score_order:
            nodes = nodes_by_score[score]
            if not nodes:
                continue
            max_free = max_free_by_score[score]
            for position, amount in indexed_requests:
                if max_free[position] < amount:
                    break
            else:
                position_in_bucket, node = self._first_fitting_node(nodes, indexed_requests)
                if node is not None:
                    return abs(score - self._score_order[0]), position_in_bucket, node
                free_in_bucket = (self.free[each] for each in nodes)
                max_free_by_score[score] = [max(amounts) for amounts in zip(*free_in_bucket, strict=True)]
        return None

    def _first_fitting_node(
        self, nodes: Iterable[int], indexed_requests: tuple[tuple[int, int], ...]
    ) -> tuple[int, int | None]:
        free = self.free
        for position_in_bucket, node in enumerate(nodes):
            node_free = free[node]
            for position, amount in indexed_requests:
                if node_free[position] < amount:
                    break
            else:
                return position_in_bucket, node
        return 0, None

    def preference_rank(self, node: int) -> int:
        """Return a rank; nodes with lower ranks are chosen first."""
        return abs(self._scores[node] - self._score_order[0])

    def allocate(self, node: int, indexed_requests: IndexedRequests) -> None:
        self._change_free(node, indexed_requests, -1)

    def release(self, node: int, indexed_requests: IndexedRequests) -> None:
        self._change_free(node, indexed_requests, 1)

    def _change_free(self, node: int, indexed_requests: IndexedRequests, sign: int) -> None:
        free = self.free[node]
        for position, amount in indexed_requests or ():
            free[position] += sign * amount
        pool = self._pool_of[node]
        score = pool.score_free_resources(free)
        if score != self._scores[node]:
            del pool.nodes_by_score[self._scores[node]][node]
            self._scores[node] = score
            pool.add_node(node, score, free)
        elif sign > 0:
            pool.add_node(node, score, free)
