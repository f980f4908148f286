"""The nodes of a simulated cluster, and which of them a scheduler would choose.

Nodes have an integer score from 0 (full) to 100 (empty), the mean over CPU, memory and devices of what is free, as
kube-scheduler reckons by default. They lie in one drawer for each score, and on every drawer stands how much of
each resource a node in it has free at most, so that the best one is found without asking all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from pliant.autoscale.model import PodShape, ResourceAmounts
from pliant.simulation.trace import NodeClass

IndexedRequests = tuple[tuple[int, int], ...] | None
"""Positions of resources and amounts; None where no node has one of them at all."""


class NodePool:
    """Nodes of one class, by their score."""

    __slots__ = ("allocatable", "max_free_by_score", "nodes_by_score", "scored_resources")

    def __init__(self, allocatable: Sequence[int], scored_resources: Sequence[int]) -> None:
        self.allocatable = allocatable
        self.scored_resources = tuple(position for position in scored_resources if allocatable[position])
        self.nodes_by_score: list[dict[int, None]] = [{} for _ in range(101)]
        self.max_free_by_score = [[0] * len(allocatable) for _ in range(101)]
        """Nobody in the drawer has more than this."""

    def add_node(self, node: int, score: int, free: Sequence[int]) -> None:
        """Into its drawer, on which it is written what it has."""
        self.nodes_by_score[score][node] = None
        bound = self.max_free_by_score[score]
        for position, amount in enumerate(free):
            if amount > bound[position]:
                bound[position] = amount

    def score(self, free: Sequence[int]) -> int:
        """From 0 for a node that is full to 100 for an empty one."""
        room = self.allocatable
        total = 0
        for position in self.scored_resources:
            total += free[position] * 100 // room[position]
        return total // (len(self.scored_resources) or 1)


class SimulatedNodes:
    """Takes and gives room; the same questions always have the same answers."""

    def __init__(self, node_classes: Iterable[NodeClass], *, is_bin_packing: bool = False) -> None:
        known = tuple(node_classes)
        self.resources = tuple(sorted({name for kind in known for name in kind.allocatable}))
        self._resource_index = {name: position for position, name in enumerate(self.resources)}
        scored = [position for position, name in enumerate(self.resources) if name != "pods"]
        self._score_order = range(101) if is_bin_packing else range(100, -1, -1)
        self.node_names: list[str] = []
        self.free: list[list[int]] = []
        self.allocatable: list[ResourceAmounts] = []
        self._pools: list[NodePool] = []
        self._pool_of: list[NodePool] = []
        self._scores: list[int] = []
        for kind in known:
            self._add_node_class(kind, scored)
        self.total = dict.fromkeys(self.resources, 0)
        for room in self.allocatable:
            for name, amount in room.items():
                self.total[name] += amount

    def _add_node_class(self, node_class: NodeClass, scored_resources: Sequence[int]) -> None:
        room = [node_class.allocatable.get(name, 0) for name in self.resources]
        pool = NodePool(room, scored_resources)
        self._pools.append(pool)
        for number in range(node_class.count):
            node = len(self.node_names)
            self.node_names.append(f"{node_class.name}-{number}")
            self.free.append(list(room))
            self.allocatable.append(node_class.allocatable)
            self._pool_of.append(pool)
            self._scores.append(pool.score(room))
            pool.add_node(node, self._scores[node], self.free[node])

    def index_requests(self, shape: PodShape) -> IndexedRequests:
        """What a pod of this shape takes, in our order of resources."""
        if any(name not in self._resource_index for name, _ in shape.requests):
            return None
        return tuple((self._resource_index[name], amount) for name, amount in shape.requests)

    def has_room(self, node: int, indexed_requests: IndexedRequests) -> bool:
        """Whether it has room for such a pod."""
        if indexed_requests is None:
            return False
        free = self.free[node]
        return all(free[position] >= amount for position, amount in indexed_requests)

    def best_node(self, indexed_requests: IndexedRequests) -> int | None:
        """The node a scheduler would choose for such a pod; None where none has room."""
        if indexed_requests is None:
            return None
        found = [
            place for pool in self._pools if (place := self._best_node_in_pool(pool, indexed_requests)) is not None
        ]
        return min(found)[2] if found else None

    def _best_node_in_pool(
        self, pool: NodePool, indexed_requests: tuple[tuple[int, int], ...]
    ) -> tuple[int, int, int] | None:
        if any(pool.allocatable[position] < amount for position, amount in indexed_requests):
            return None
        drawers, bounds = pool.nodes_by_score, pool.max_free_by_score
        for score in self._score_order:
            drawer = drawers[score]
            if not drawer:
                continue
            bound = bounds[score]
            for position, amount in indexed_requests:
                if bound[position] < amount:
                    break
            else:
                order, node = self._first_fitting_node(drawer, indexed_requests)
                if node is not None:
                    return abs(score - self._score_order[0]), order, node
                bounds[score] = [max(column) for column in zip(*(self.free[each] for each in drawer), strict=True)]
        return None

    def _first_fitting_node(
        self, nodes: Iterable[int], indexed_requests: tuple[tuple[int, int], ...]
    ) -> tuple[int, int | None]:
        free = self.free
        for order, node in enumerate(nodes):
            here = free[node]
            for position, amount in indexed_requests:
                if here[position] < amount:
                    break
            else:
                return order, node
        return 0, None

    def preference_rank(self, node: int) -> int:
        """The smaller, the sooner it is chosen."""
        return abs(self._scores[node] - self._score_order[0])

    def allocate(self, node: int, indexed_requests: IndexedRequests) -> None:
        """A pod sits down there."""
        self._change_free(node, indexed_requests, -1)

    def release(self, node: int, indexed_requests: IndexedRequests) -> None:
        """A pod has left."""
        self._change_free(node, indexed_requests, 1)

    def _change_free(self, node: int, indexed_requests: IndexedRequests, sign: int) -> None:
        free = self.free[node]
        for position, amount in indexed_requests or ():
            free[position] += sign * amount
        pool = self._pool_of[node]
        score = pool.score(free)
        if score != self._scores[node]:
            del pool.nodes_by_score[self._scores[node]][node]
            self._scores[node] = score
            pool.add_node(node, score, free)
        elif sign > 0:
            pool.add_node(node, score, free)

    def overcommitted_nodes(self) -> Iterator[str]:
        """Nodes that hold more than they have; there must never be one."""
        return chain(name for name, free in zip(self.node_names, self.free, strict=True) if min(free, default=0) < 0)
