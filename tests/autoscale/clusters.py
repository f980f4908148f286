"""Small clusters to plan for, and what becomes of them when a plan is carried out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from pliant.autoscale.model import (
    ClusterSnapshot,
    ElasticGroup,
    GroupKey,
    NodeResources,
    PodShape,
    ResourceAmounts,
    SizePlan,
)
from pliant.autoscale.planning.capacity import NodeCapacity
from pliant.autoscale.planning.draft import PlanDraft

GIB = 2**30


def room(cpu: float = 0, gib: int = 0, gpus: int = 0) -> dict[str, int]:
    """Amounts by name; whatever is 0 is left out."""
    amounts = {"cpu": int(cpu * 1000), "memory": gib * GIB, "nvidia.com/gpu": gpus}
    return {name: amount for name, amount in amounts.items() if amount}


def shape(cpu: float = 0, gib: int = 0, gpus: int = 0, on: Iterable[str] | None = None) -> PodShape:
    """The shape of a pod that asks for this, and may go to these nodes alone if any are named."""
    return PodShape.of({**room(cpu, gib, gpus), "pods": 1}, None if on is None else frozenset(on))


def node(
    name: str, cpu: float = 10, gib: int = 0, gpus: int = 0, *, taken: ResourceAmounts | None = None
) -> NodeResources:
    """A node that takes newcomers, with room for a hundred pods."""
    return NodeResources(name=name, allocatable={**room(cpu, gib, gpus), "pods": 100}, used_by_others=taken or {})


def nodes(number: int, cpu: float = 10, gib: int = 0, gpus: int = 0) -> tuple[NodeResources, ...]:
    """Like nodes, n0 and so on."""
    return tuple(node(f"n{each}", cpu, gib, gpus) for each in range(number))


def group(
    name: str, shape_: PodShape, bounds: tuple[int, int], places: Iterable[str] = (), **other: object
) -> ElasticGroup:
    """A group of the job of this name; as many members as it has places unless told otherwise."""
    places = tuple(places)
    facts: dict[str, object] = {"size": max(len(places), bounds[0]), **other}
    low, high = bounds
    return ElasticGroup(key=key(name), min_size=low, max_size=high, shape=shape_, replica_nodes=places, **facts)  # type: ignore[arg-type]


def key(name: str) -> GroupKey:
    """The key of the group of a job of this name, in the namespace `default` unless it names one."""
    namespace, _, job = name.rpartition("/")
    return GroupKey(namespace or "default", "PaddleJob", job, "trainer")


def cluster(nodes_: Iterable[NodeResources], *elastics: ElasticGroup, **other: object) -> ClusterSnapshot:
    """A cluster all of which may be given away, unless told otherwise."""
    facts: dict[str, object] = {"max_load": 1.0, **other}
    return ClusterSnapshot(nodes=tuple(nodes_), groups=elastics, **facts)  # type: ignore[arg-type]


def carried_out(before: ClusterSnapshot, draft: PlanDraft) -> ClusterSnapshot:
    """What becomes of a cluster when everybody comes and goes as drafted."""
    names = [*draft.capacity.node_names, ""]
    sizes = {
        crew.elastic.key: (crew.planned_size, [names[seat] for seat in crew.replica_nodes]) for crew in draft.groups
    }
    elastics = [_resized(each, *sizes[each.key]) for each in before.groups]
    taken = {node.name: Counter(node.used_by_others) for node in before.nodes}
    left = Counter({claim.key: claim.count for claim in before.pending_pods})
    for claim, seat in draft.placed_pods:
        taken[names[seat]].update(dict(claim.shape.requests))
        left[claim.key] -= 1
    return replace(
        before,
        nodes=tuple(replace(node, used_by_others=dict(taken[node.name])) for node in before.nodes),
        groups=tuple(elastics),
        pending_pods=tuple(replace(claim, count=left[claim.key]) for claim in before.pending_pods if left[claim.key]),
    )


def _resized(elastic: ElasticGroup, size: int, seats: list[str]) -> ElasticGroup:
    """Whoever has a node and stays keeps it; the others have what is planned besides."""
    places = [*elastic.replica_nodes[:size], *[""] * (size - len(elastic.replica_nodes[:size]))]
    planned = Counter(seat for seat in seats if seat)
    planned.subtract(place for place in places if place)
    newcomers = iter(sorted(planned.elements()))
    return replace(elastic, size=size, replica_nodes=tuple(place or next(newcomers, "") for place in places))


def scheduled(before: ClusterSnapshot, plan: SizePlan) -> ClusterSnapshot:
    """What becomes of a cluster when sizes are set and a scheduler puts pods wherever most CPU is free."""
    sized = [replace(each, size=plan[each.key].size) for each in before.groups]
    after = replace(
        before, groups=tuple(replace(each, replica_nodes=each.replica_nodes[: each.size]) for each in sized)
    )
    floor, taken, claims = NodeCapacity(after), {node.name: Counter(node.used_by_others) for node in after.nodes}, []
    for claim in after.pending_pods:
        there = [_roomiest(floor, claim.shape) for _ in range(claim.count)]
        for name in filter(None, there):
            taken[name].update(dict(claim.shape.requests))
        claims.append(replace(claim, count=there.count("")))
    elastics = [
        replace(each, replica_nodes=tuple(place or _roomiest(floor, each.shape) for place in _places(each)))
        for each in after.groups
    ]
    nodes_ = tuple(replace(node, used_by_others=dict(taken[node.name])) for node in after.nodes)
    return replace(
        after, nodes=nodes_, groups=tuple(elastics), pending_pods=tuple(each for each in claims if each.count)
    )


def _places(elastic: ElasticGroup) -> list[str]:
    return [*elastic.replica_nodes, *[""] * (elastic.size - len(elastic.replica_nodes))]


def _roomiest(floor: NodeCapacity, wanted: PodShape) -> str:
    """The node with most CPU left, which has one less then; or none."""
    foot = floor.footprint_of(wanted)
    fitting = [each for each in range(floor.unknown_node) if foot.allowed_nodes[each] and floor.has_room(foot, each)]
    if not fitting:
        return ""
    best = max(
        fitting, key=lambda each: (floor.layout.amount_of(floor.free_vectors[each], "cpu"), floor.node_names[each])
    )
    floor.allocate(foot, best)
    return floor.node_names[best]
