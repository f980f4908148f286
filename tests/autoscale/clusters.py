"""Small clusters to plan for, and what becomes of them when a plan is carried out."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.autoscale.model import Amounts, Cluster, Elastic, GroupKey, Node, Shape

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
