"""The free capacity of every node, and the limit on the total load.

Nodes are ordered by free capacity, the fullest first, and new pods go to the first node with room: this keeps large
gaps free. Nodes with free devices come last, so that pods without devices do not occupy them.

The load limit applies to schedulable nodes only: cordoning a node removes its capacity and its usage. The scheduler
decides where pods really run; planning only needs to know how many fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

from pliant.autoscale.model import ClusterSnapshot, NodeResources, PodShape
from pliant.autoscale.planning.resource_vectors import ResourceVectorLayout

LOAD_LIMITED_RESOURCES = ("cpu", "memory")  # the resources to which `ClusterSnapshot.max_load` applies
_STANDARD_RESOURCES = frozenset(("cpu", "memory", "pods", "ephemeral-storage"))
_BLOCK_SIZE = 64
_MAX_BLOCK_MISSES = 4  # failed searches of a block after which its upper bound is recomputed


class PodFootprint:
    """A pod shape as packed vectors; equal shapes share one footprint."""

    __slots__ = (
        "allowed_nodes", "freed_cursor", "load_sign_bits", "load_vector", "request_vector", "search_start",
        "shape", "sign_bits",
    )  # fmt: skip

    def __init__(
        self, shape: PodShape, layout: ResourceVectorLayout, allowed_nodes: bytearray, freed_cursor: int
    ) -> None:
        self.shape = shape
        self.request_vector = layout.pack(shape.requests)
        self.sign_bits = layout.sign_bits(name for name, _ in shape.requests)
        """Only requested resources are checked: a node may be overcommitted in others."""
        limited = [(name, amount) for name, amount in shape.requests if name in LOAD_LIMITED_RESOURCES]
        self.load_vector = layout.pack(limited)
        self.load_sign_bits = layout.sign_bits(name for name, _ in limited)
        self.allowed_nodes = allowed_nodes  # by node position, whether new pods of this shape may go there
        self.search_start = 0  # nodes before this position have no room for the shape
        self.freed_cursor = freed_cursor
        """Nodes freed since then are in the capacity's list of freed nodes from this index on."""


class NodeCapacity:
    def __init__(self, cluster: ClusterSnapshot) -> None:
        """Count all scheduled pods as running, except replicas beyond the size of their group, which are leaving."""
        shapes = {each.shape for each in cluster.groups} | {each.shape for each in cluster.pending_pods}
        self.layout = ResourceVectorLayout(name for shape in shapes for name, _ in shape.requests)
        free_by_node = _free_vectors(cluster, self.layout)
        nodes = sorted(cluster.nodes, key=lambda node: _packing_order(node, free_by_node[node.name], self.layout))
        self.node_names = [node.name for node in nodes]
        self.node_positions = {name: number for number, name in enumerate(self.node_names)}
        self.unknown_node = len(nodes)
        """The position that stands for unknown nodes: pods there use nothing, and no pod can be placed there."""
        self.free_vectors = [free_by_node[name] for name in self.node_names]
        self.schedulable_nodes = bytearray(node.is_schedulable for node in nodes)
        self.schedulable_nodes.append(False)
        self.load_headroom = _load_headroom(cluster, self.free_vectors, self.schedulable_nodes, self.layout)
        """How much more may be allocated in total."""
        self._allowed_masks: dict[frozenset[str] | None, bytearray] = {None: self.schedulable_nodes}
        self._reset_search([*self.free_vectors, self.layout.zero])

    def _reset_search(self, free_vectors: list[int]) -> None:
        self.free_vectors = free_vectors
        self._footprints: dict[PodShape, PodFootprint] = {}
        self._block_max_free = [self._max_free_in_block(block) for block in range(0, len(free_vectors), _BLOCK_SIZE)]
        self._block_misses = [0] * len(self._block_max_free)
        self._freed_nodes: list[int] = []

    def footprint_of(self, shape: PodShape) -> PodFootprint:
        cached = self._footprints.get(shape)
        if cached is None:
            cached = PodFootprint(shape, self.layout, self._allowed_mask(shape.allowed_nodes), len(self._freed_nodes))
            self._footprints[shape] = cached
        return cached

    def find_node(self, footprint: PodFootprint) -> int | None:
        """Return the position of a node with room for a new pod, or None; load limit and quotas are not checked."""
        request, sign_bits, allowed = footprint.request_vector, footprint.sign_bits, footprint.allowed_nodes
        free = self.free_vectors
        freed, cursor = self._freed_nodes, footprint.freed_cursor
        while cursor < len(freed):
            node = freed[cursor]
            if free[node] - request & sign_bits == sign_bits and allowed[node]:
                footprint.freed_cursor = cursor
                return node
            cursor += 1
        footprint.freed_cursor = cursor
        return self._search_blocks(footprint)

    def has_room(self, footprint: PodFootprint, node: int) -> bool:
        """Return whether a node has room for one more pod, schedulable or not."""
        return self.free_vectors[node] - footprint.request_vector & footprint.sign_bits == footprint.sign_bits

    def fits_load_limit(self, footprint: PodFootprint) -> bool:
        return self.load_headroom - footprint.load_vector & footprint.load_sign_bits == footprint.load_sign_bits

    def allocate(self, footprint: PodFootprint, node: int) -> None:
        if node != self.unknown_node:
            self.free_vectors[node] -= footprint.request_vector
        if self.schedulable_nodes[node]:
            self.load_headroom -= footprint.load_vector

    def release(self, footprint: PodFootprint, node: int) -> None:
        if self.schedulable_nodes[node]:
            self.load_headroom += footprint.load_vector
        if node != self.unknown_node:
            free_vector = self.free_vectors[node] = self.free_vectors[node] + footprint.request_vector
            block = node // _BLOCK_SIZE
            self._block_max_free[block] = self.layout.elementwise_max(self._block_max_free[block], free_vector)
            self._freed_nodes.append(node)

    def swap(self, removed: PodFootprint, added: PodFootprint, node: int) -> None:
        """Replace a pod by another one on the same node; cheap if their requests are equal."""
        if removed.request_vector == added.request_vector:
            return
        self.release(removed, node)
        self.allocate(added, node)

    def find_nodes(self, footprint: PodFootprint, start: int, limit: int) -> Iterator[int]:
        """Yield up to `limit` positions from `start` on whose nodes have room for a new pod."""
        request, sign_bits, allowed = footprint.request_vector, footprint.sign_bits, footprint.allowed_nodes
        free = self.free_vectors
        node, end = start, self.unknown_node
        while node < end and limit:
            if node % _BLOCK_SIZE == 0 and self._block_max_free[node // _BLOCK_SIZE] - request & sign_bits != sign_bits:
                node += _BLOCK_SIZE
                continue
            if free[node] - request & sign_bits == sign_bits and allowed[node]:
                limit -= 1
                yield node
            node += 1

    def with_free_vectors(self, free_vectors: list[int]) -> NodeCapacity:
        """Return the same nodes with other free capacities, for what-if searches."""
        other = copy(self)
        other._reset_search(free_vectors)  # noqa: SLF001 - an instance of the same class
        return other

    def _search_blocks(self, footprint: PodFootprint) -> int | None:
        request, sign_bits, allowed = footprint.request_vector, footprint.sign_bits, footprint.allowed_nodes
        free = self.free_vectors
        node, end = footprint.search_start, self.unknown_node
        while node < end:
            block = node // _BLOCK_SIZE
            stop = min(block * _BLOCK_SIZE + _BLOCK_SIZE, end)
            if self._block_max_free[block] - request & sign_bits == sign_bits:
                for candidate in range(node, stop):
                    if free[candidate] - request & sign_bits == sign_bits and allowed[candidate]:
                        footprint.search_start = candidate
                        return candidate
                self._record_block_miss(block)
            node = stop
        footprint.search_start = end
        return None

    def _record_block_miss(self, block: int) -> None:
        self._block_misses[block] += 1
        if self._block_misses[block] == _MAX_BLOCK_MISSES:
            self._block_misses[block] = 0
            self._block_max_free[block] = self._max_free_in_block(block * _BLOCK_SIZE)

    def _max_free_in_block(self, start: int) -> int:
        elementwise_max, bound = self.layout.elementwise_max, 0
        for free_vector in self.free_vectors[start : start + _BLOCK_SIZE]:
            bound = elementwise_max(bound, free_vector)
        return bound

    def _allowed_mask(self, allowed_nodes: frozenset[str] | None) -> bytearray:
        cached = self._allowed_masks.get(allowed_nodes)
        if cached is None:
            names = allowed_nodes or frozenset()
            cached = bytearray(
                is_open and name in names
                for name, is_open in zip(self.node_names, self.schedulable_nodes, strict=False)
            )
            cached.append(False)
            self._allowed_masks[allowed_nodes] = cached
        return cached


def _free_vectors(cluster: ClusterSnapshot, layout: ResourceVectorLayout) -> dict[str, int]:
    pack, zero = layout.pack, layout.zero
    free_by_node = {
        node.name: zero + pack(node.allocatable.items()) - pack(node.used_by_others.items()) for node in cluster.nodes
    }
    request_vectors: dict[PodShape, int] = {}
    for elastic in cluster.groups:
        shape = elastic.shape
        request = request_vectors.get(shape)
        if request is None:
            request = request_vectors[shape] = pack(shape.requests)
        for node_name in elastic.replica_nodes[: elastic.size]:
            if node_name in free_by_node:
                free_by_node[node_name] -= request
    return free_by_node


def _load_headroom(
    cluster: ClusterSnapshot, free_vectors: list[int], schedulable_nodes: bytearray, layout: ResourceVectorLayout
) -> int:
    totals: dict[str, int] = dict.fromkeys(LOAD_LIMITED_RESOURCES, 0)
    for node in cluster.nodes:
        if node.is_schedulable:
            for name in LOAD_LIMITED_RESOURCES:
                totals[name] += node.allocatable.get(name, 0)
    max_load = cluster.max_load if cluster.max_load < 1 else 1
    reserved = {name: total - int(total * max_load) for name, total in totals.items()}
    zero = layout.zero
    unused = sum(
        free_vector - zero for free_vector, is_open in zip(free_vectors, schedulable_nodes, strict=False) if is_open
    )
    return zero + unused - layout.pack(reserved.items())


def _packing_order(node: NodeResources, free_vector: int, layout: ResourceVectorLayout) -> tuple[int, int, str]:
    """Return a sort key: the fullest nodes first, nodes with free devices last."""
    standard = devices = 0
    for name, total in node.allocatable.items():
        if name not in _STANDARD_RESOURCES:
            devices += max(layout.amount_of(free_vector, name), 0)
        elif total > 0:
            standard += layout.amount_of(free_vector, name) * 1000 // total
    return devices, standard, node.name


class QuotaBudget:
    __slots__ = ("_mask", "_sign_bits", "remaining")

    def __init__(self, remaining: int, sign_bits: int, mask: int) -> None:
        self.remaining = remaining
        self._sign_bits = sign_bits
        self._mask = mask

    def may_allocate(self, footprint: PodFootprint, released: int = 0) -> bool:
        """Return whether the quota suffices for one more pod after `released` is returned."""
        sign_bits = self._sign_bits & footprint.sign_bits
        remaining = self.remaining + (released & self._mask) - (footprint.request_vector & self._mask)
        return remaining & sign_bits == sign_bits

    def allocate(self, footprint: PodFootprint) -> None:
        self.remaining -= footprint.request_vector & self._mask

    def release(self, footprint: PodFootprint) -> None:
        self.remaining += footprint.request_vector & self._mask


def quota_budget_by_namespace(cluster: ClusterSnapshot, layout: ResourceVectorLayout) -> dict[str, QuotaBudget]:
    return {
        namespace: QuotaBudget(
            layout.zero + layout.pack(limits.items()), layout.sign_bits(limits), layout.lane_mask(limits)
        )
        for namespace, limits in cluster.quotas.items()
    }
