"""Small clusters to plan for, and what becomes of them when a plan is carried out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from pliant.autoscale.draft import Draft
from pliant.autoscale.model import Amounts, Cluster, Elastic, GroupKey, Node, Plan, Shape
from pliant.autoscale.packing import Floor

GIB = 2**30


def room(cpu: float = 0, gib: int = 0, gpus: int = 0) -> dict[str, int]:
    """Amounts by name; whatever is 0 is left out."""
    amounts = {"cpu": int(cpu * 1000), "memory": gib * GIB, "nvidia.com/gpu": gpus}
    return {name: amount for name, amount in amounts.items() if amount}


def shape(cpu: float = 0, gib: int = 0, gpus: int = 0, on: Iterable[str] | None = None) -> Shape:
    """The shape of a pod that asks for this, and may go to these nodes alone if any are named."""
    return Shape.of({**room(cpu, gib, gpus), "pods": 1}, None if on is None else frozenset(on))


def node(name: str, cpu: float = 10, gib: int = 0, gpus: int = 0, *, taken: Amounts | None = None) -> Node:
    """A node that takes newcomers, with room for a hundred pods."""
    return Node(name=name, room={**room(cpu, gib, gpus), "pods": 100}, taken=taken or {})


def nodes(number: int, cpu: float = 10, gib: int = 0, gpus: int = 0) -> tuple[Node, ...]:
    """Like nodes, n0 and so on."""
    return tuple(node(f"n{each}", cpu, gib, gpus) for each in range(number))


def group(
    name: str, shape_: Shape, bounds: tuple[int, int], places: Iterable[str] = (), **other: object
) -> Elastic:
    """A group of the job of this name; as many members as it has places unless told otherwise."""
    places = tuple(places)
    facts: dict[str, object] = {"size": max(len(places), bounds[0]), **other}
    return Elastic(key=key(name), least=bounds[0], most=bounds[1], shape=shape_, places=places, **facts)  # type: ignore[arg-type]


def key(name: str) -> GroupKey:
    """The key of the group of a job of this name, in the namespace `default` unless it names one."""
    namespace, _, job = name.rpartition("/")
    return GroupKey(namespace or "default", "PaddleJob", job, "trainer")


def cluster(nodes_: Iterable[Node], *elastics: Elastic, **other: object) -> Cluster:
    """A cluster all of which may be given away, unless told otherwise."""
    facts: dict[str, object] = {"load": 1.0, **other}
    return Cluster(nodes=tuple(nodes_), elastics=elastics, **facts)  # type: ignore[arg-type]


def carried_out(before: Cluster, draft: Draft) -> Cluster:
    """What becomes of a cluster when everybody comes and goes as drafted."""
    names = [*draft.floor.names, ""]
    sizes = {crew.elastic.key: (crew.size, [names[seat] for seat in crew.seats]) for crew in draft.crews}
    elastics = [_resized(each, *sizes[each.key]) for each in before.elastics]
    taken = {node.name: Counter(node.taken) for node in before.nodes}
    left = Counter({claim.key: claim.number for claim in before.claims})
    for claim, seat in draft.arrivals:
        taken[names[seat]].update(dict(claim.shape.needs))
        left[claim.key] -= 1
    return replace(
        before,
        nodes=tuple(replace(node, taken=dict(taken[node.name])) for node in before.nodes),
        elastics=tuple(elastics),
        claims=tuple(replace(claim, number=left[claim.key]) for claim in before.claims if left[claim.key]),
    )


def _resized(elastic: Elastic, size: int, seats: list[str]) -> Elastic:
    """Whoever has a node and stays keeps it; the others have what is planned besides."""
    places = [*elastic.places[:size], *[""] * (size - len(elastic.places[:size]))]
    planned = Counter(seat for seat in seats if seat)
    planned.subtract(place for place in places if place)
    newcomers = iter(sorted(planned.elements()))
    return replace(elastic, size=size, places=tuple(place or next(newcomers, "") for place in places))


def scheduled(before: Cluster, plan: Plan) -> Cluster:
    """What becomes of a cluster when sizes are set and a scheduler puts pods wherever most CPU is free."""
    sized = [replace(each, size=plan[each.key].size) for each in before.elastics]
    after = replace(before, elastics=tuple(replace(each, places=each.places[: each.size]) for each in sized))
    floor, taken, claims = Floor(after), {node.name: Counter(node.taken) for node in after.nodes}, []
    for claim in after.claims:
        there = [_roomiest(floor, claim.shape) for _ in range(claim.number)]
        for name in filter(None, there):
            taken[name].update(dict(claim.shape.needs))
        claims.append(replace(claim, number=there.count("")))
    elastics = [
        replace(each, places=tuple(place or _roomiest(floor, each.shape) for place in _places(each)))
        for each in after.elastics
    ]
    nodes_ = tuple(replace(node, taken=dict(taken[node.name])) for node in after.nodes)
    return replace(
        after, nodes=nodes_, elastics=tuple(elastics), claims=tuple(each for each in claims if each.number)
    )


def _places(elastic: Elastic) -> list[str]:
    return [*elastic.places, *[""] * (elastic.size - len(elastic.places))]


def _roomiest(floor: Floor, wanted: Shape) -> str:
    """The node with most CPU left, which has one less then; or none."""
    foot = floor.footprint(wanted)
    fitting = [each for each in range(floor.nowhere) if foot.open_to[each] and floor.is_room(foot, each)]
    if not fitting:
        return ""
    best = max(fitting, key=lambda each: (floor.lanes.amount(floor.free[each], "cpu"), floor.names[each]))
    floor.take(foot, best)
    return floor.names[best]
