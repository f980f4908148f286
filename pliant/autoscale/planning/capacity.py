"""Where pods would fit: the free room of every node, and what may be given away of all of it.

Nodes have a position, the fullest first: newcomers go to the first that has room, so that big holes survive. Nodes
with free devices come last, those with the fewest of them first, so that nobody sits on them who needs none.

The limit of load concerns nodes that take newcomers alone, their room and what is taken of it: cordoning a node
takes both out of the account. Where pods end up is up to the scheduler; what counts here is how many fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

from pliant.autoscale.model import ClusterSnapshot, NodeResources, PodShape
from pliant.autoscale.planning.resource_vectors import ResourceVectorLayout

LOAD_LIMITED_RESOURCES = ("cpu", "memory")
"""What `Cluster.load` concerns."""
_STANDARD_RESOURCES = frozenset(("cpu", "memory", "pods", "ephemeral-storage"))
_BLOCK_SIZE = 64
_MAX_BLOCK_MISSES = 4
"""How many searches a block may disappoint before its bound is made anew, which costs about as much."""


class PodFootprint:
    """A shape as a floor sees it; there is one for all equal shapes."""

    __slots__ = (
        "allowed_nodes",
        "freed_cursor",
        "load_sign_bits",
        "load_vector",
        "request_vector",
        "search_start",
        "shape",
        "sign_bits",
    )

    def __init__(
        self, shape: PodShape, layout: ResourceVectorLayout, allowed_nodes: bytearray, freed_cursor: int
    ) -> None:
        self.shape = shape
        self.request_vector = layout.pack(shape.requests)
        self.sign_bits = layout.sign_bits(name for name, _ in shape.requests)
        """Only what is needed must be there: a node that is short of something else will do."""
        limited = [(name, amount) for name, amount in shape.requests if name in LOAD_LIMITED_RESOURCES]
        self.load_vector = layout.pack(limited)
        self.load_sign_bits = layout.sign_bits(name for name, _ in limited)
        self.allowed_nodes = allowed_nodes
        """By position, whether a node takes it as a newcomer."""
        self.search_start = 0
        """Nodes before it had no room for this."""
        self.freed_cursor = freed_cursor
        """Nodes that had none and were given some are in the floor's news from here on."""


class NodeCapacity:
    """The free room of a cluster's nodes after everything that is there."""

    def __init__(self, cluster: ClusterSnapshot) -> None:
        """Everybody who has a node is there, but for members beyond the size of their group: they are leaving."""
        shapes = {each.shape for each in cluster.groups} | {each.shape for each in cluster.pending_pods}
        self.layout = ResourceVectorLayout(name for shape in shapes for name, _ in shape.requests)
        rooms = _free_vectors(cluster, self.layout)
        nodes = sorted(cluster.nodes, key=lambda node: _packing_order(node, rooms[node.name], self.layout))
        self.node_names = [node.name for node in nodes]
        self.node_positions = {name: number for number, name in enumerate(self.node_names)}
        self.unknown_node = len(nodes)
        """The position of nodes that are not known: whoever is there takes up nothing, and nobody can go there."""
        self.free_vectors = [rooms[name] for name in self.node_names]
        self.schedulable_nodes = bytearray(node.is_schedulable for node in nodes)
        self.schedulable_nodes.append(False)
        self.load_headroom = _load_headroom(cluster, self.free_vectors, self.schedulable_nodes, self.layout)
        """How much more may be given away of all that is limited."""
        self._allowed_masks: dict[frozenset[str] | None, bytearray] = {None: self.schedulable_nodes}
        self._reset_search([*self.free_vectors, self.layout.zero])

    def _reset_search(self, free_vectors: list[int]) -> None:
        """Begin to search from the first node."""
        self.free_vectors = free_vectors
        self._footprints: dict[PodShape, PodFootprint] = {}
        self._block_max_free = [self._max_free_in_block(block) for block in range(0, len(free_vectors), _BLOCK_SIZE)]
        self._block_misses = [0] * len(self._block_max_free)
        self._freed_nodes: list[int] = []

    def footprint_of(self, shape: PodShape) -> PodFootprint:
        """The footprint of a shape."""
        known = self._footprints.get(shape)
        if known is None:
            known = PodFootprint(shape, self.layout, self._allowed_mask(shape.allowed_nodes), len(self._freed_nodes))
            self._footprints[shape] = known
        return known

    def find_node(self, footprint: PodFootprint) -> int | None:
        """The position of a node that has room for a newcomer, if any has; limits of load and quota aside."""
        need, signs, open_to, free = (
            footprint.request_vector,
            footprint.sign_bits,
            footprint.allowed_nodes,
            self.free_vectors,
        )
        news, heard = self._freed_nodes, footprint.freed_cursor
        while heard < len(news):
            node = news[heard]
            if free[node] - need & signs == signs and open_to[node]:
                footprint.freed_cursor = heard
                return node
            heard += 1
        footprint.freed_cursor = heard
        return self._search_blocks(footprint)

    def has_room(self, footprint: PodFootprint, node: int) -> bool:
        """Whether a node has room for one more of these, whether it takes newcomers or not."""
        return self.free_vectors[node] - footprint.request_vector & footprint.sign_bits == footprint.sign_bits

    def is_within_load(self, footprint: PodFootprint) -> bool:
        """Whether one more of these may be added to all that is given away."""
        return self.load_headroom - footprint.load_vector & footprint.load_sign_bits == footprint.load_sign_bits

    def allocate(self, footprint: PodFootprint, node: int) -> None:
        """Put one there."""
        if node != self.unknown_node:
            self.free_vectors[node] -= footprint.request_vector
        if self.schedulable_nodes[node]:
            self.load_headroom -= footprint.load_vector

    def release(self, footprint: PodFootprint, node: int) -> None:
        """Take one away from there."""
        if self.schedulable_nodes[node]:
            self.load_headroom += footprint.load_vector
        if node != self.unknown_node:
            room = self.free_vectors[node] = self.free_vectors[node] + footprint.request_vector
            self._block_max_free[node // _BLOCK_SIZE] = self.layout.elementwise_max(
                self._block_max_free[node // _BLOCK_SIZE], room
            )
            self._freed_nodes.append(node)

    def swap(self, removed: PodFootprint, added: PodFootprint, node: int) -> None:
        """Put one where another was; cheaper than to give and to take where they are alike."""
        if removed.request_vector == added.request_vector:
            return
        self.release(removed, node)
        self.allocate(added, node)

    def find_nodes(self, footprint: PodFootprint, start: int, limit: int) -> Iterator[int]:
        """The first nodes from a position on that have room for a newcomer, not more than this many."""
        need, signs, open_to, free = (
            footprint.request_vector,
            footprint.sign_bits,
            footprint.allowed_nodes,
            self.free_vectors,
        )
        node, end = start, self.unknown_node
        while node < end and limit:
            if node % _BLOCK_SIZE == 0 and self._block_max_free[node // _BLOCK_SIZE] - need & signs != signs:
                node += _BLOCK_SIZE
                continue
            if free[node] - need & signs == signs and open_to[node]:
                limit -= 1
                yield node
            node += 1

    def with_free_vectors(self, free_vectors: list[int]) -> NodeCapacity:
        """The same nodes with other room, to ask what could be there."""
        other = copy(self)
        other._reset_search(free_vectors)  # noqa: SLF001 - it is one of our own
        return other

    def _search_blocks(self, footprint: PodFootprint) -> int | None:
        need, signs, open_to, free = (
            footprint.request_vector,
            footprint.sign_bits,
            footprint.allowed_nodes,
            self.free_vectors,
        )
        node, end = footprint.search_start, self.unknown_node
        while node < end:
            block = node // _BLOCK_SIZE
            stop = min(block * _BLOCK_SIZE + _BLOCK_SIZE, end)
            if self._block_max_free[block] - need & signs == signs:
                for here in range(node, stop):
                    if free[here] - need & signs == signs and open_to[here]:
                        footprint.search_start = here
                        return here
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
        """As much of everything as any node of a block has."""
        most, bound = self.layout.elementwise_max, 0
        for room in self.free_vectors[start : start + _BLOCK_SIZE]:
            bound = most(bound, room)
        return bound

    def _allowed_mask(self, allowed_nodes: frozenset[str] | None) -> bytearray:
        known = self._allowed_masks.get(allowed_nodes)
        if known is None:
            names = allowed_nodes or frozenset()
            known = bytearray(
                is_open and name in names
                for name, is_open in zip(self.node_names, self.schedulable_nodes, strict=False)
            )
            known.append(False)
            self._allowed_masks[allowed_nodes] = known
        return known


def _free_vectors(cluster: ClusterSnapshot, layout: ResourceVectorLayout) -> dict[str, int]:
    """What is free on every node."""
    packed, nothing = layout.pack, layout.zero
    rooms = {
        node.name: nothing + packed(node.allocatable.items()) - packed(node.used_by_others.items())
        for node in cluster.nodes
    }
    needs: dict[PodShape, int] = {}
    for elastic in cluster.groups:
        shape = elastic.shape
        need = needs.get(shape)
        if need is None:
            need = needs[shape] = packed(shape.requests)
        for place in elastic.replica_nodes[: elastic.size]:
            if place in rooms:
                rooms[place] -= need
    return rooms


def _load_headroom(
    cluster: ClusterSnapshot, free_vectors: list[int], schedulable_nodes: bytearray, layout: ResourceVectorLayout
) -> int:
    """How much may still be given away: a part of all room, less what is taken of it."""
    totals: dict[str, int] = dict.fromkeys(LOAD_LIMITED_RESOURCES, 0)
    for node in cluster.nodes:
        if node.is_schedulable:
            for name in LOAD_LIMITED_RESOURCES:
                totals[name] += node.allocatable.get(name, 0)
    kept_free = {
        name: total - (int(total * cluster.max_load) if cluster.max_load < 1 else total)
        for name, total in totals.items()
    }
    nothing = layout.zero
    unused = sum(room - nothing for room, opened in zip(free_vectors, schedulable_nodes, strict=False) if opened)
    return nothing + unused - layout.pack(kept_free.items())


def _packing_order(node: NodeResources, free_vector: int, layout: ResourceVectorLayout) -> tuple[int, int, str]:
    """The fullest first; those with free devices last."""
    common = devices = 0
    for name, total in node.allocatable.items():
        if name not in _STANDARD_RESOURCES:
            devices += max(layout.amount_of(free_vector, name), 0)
        elif total > 0:
            common += layout.amount_of(free_vector, name) * 1000 // total
    return devices, common, node.name


class QuotaBudget:
    """What is left of a namespace's quota."""

    __slots__ = ("_mask", "_sign_bits", "remaining")

    def __init__(self, remaining: int, sign_bits: int, mask: int) -> None:
        self.remaining = remaining
        self._sign_bits = sign_bits
        self._mask = mask

    def may_allocate(self, footprint: PodFootprint, released: int = 0) -> bool:
        """Whether there is enough left for one of these, if this much came back first."""
        signs = self._sign_bits & footprint.sign_bits
        return self.remaining + (released & self._mask) - (footprint.request_vector & self._mask) & signs == signs

    def allocate(self, footprint: PodFootprint) -> None:
        """Let one have its part."""
        self.remaining -= footprint.request_vector & self._mask

    def release(self, footprint: PodFootprint) -> None:
        """Have the part of one back."""
        self.remaining += footprint.request_vector & self._mask


def quota_budgets(cluster: ClusterSnapshot, layout: ResourceVectorLayout) -> dict[str, QuotaBudget]:
    """The purses of namespaces that have a quota, full."""
    return {
        namespace: QuotaBudget(
            layout.zero + layout.pack(limits.items()), layout.sign_bits(limits), layout.lane_mask(limits)
        )
        for namespace, limits in cluster.quotas.items()
    }
