"""Clusters of any kind, for properties: with closed and overdrawn nodes, gaps, quotas and bounds just changed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, GroupKey, NodeResources, PendingPods, PodShape
from pliant.autoscale.planning.capacity import NodeCapacity
from tests.autoscale.clusters import room, shape

NAMES = [f"n{number}" for number in range(5)]

few = st.integers(0, 3)
domains = st.none() | st.none() | st.frozensets(st.sampled_from([*NAMES, "gone"]))
shapes = st.one_of(
    st.builds(shape, st.integers(1, 5), few, st.integers(0, 2), domains),
    st.builds(shape, few, few, few, domains),
    st.just(shape(3)),
    st.just(shape(10**9)),
)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[NodeResources, ...]:
    """Up to five nodes, some of them closed or with more taken than they have."""
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        taken = room(draw(few), draw(few)) if draw(st.integers(0, 2)) == 0 else {}
        size = draw(st.integers(1, 12)), draw(st.integers(1, 12)), draw(st.sampled_from([0, 0, 4]))
        is_open = draw(st.integers(0, 5)) > 0
        found.append(
            NodeResources(
                name=name, allocatable={**room(*size), "pods": 12}, used_by_others=taken, is_schedulable=is_open
            )
        )
    return tuple(found)


@st.composite
def elastics(draw: st.DrawFn, number: int, shape_: PodShape) -> ElasticGroup:
    """A group whose members wait, so far."""
    least = draw(few)
    most = least + draw(st.integers(0, 8))
    return ElasticGroup(
        key=GroupKey(draw(st.sampled_from("ab")), "PaddleJob", f"job{number}", "trainer"),
        min_size=least,
        max_size=most,
        size=draw(st.integers(0, most + 1)),
        shape=shape_,
        priority=draw(st.sampled_from([0, 0, 0, 7])),
        created_at=float(draw(st.integers(0, 2))),
        may_grow=draw(st.integers(0, 5)) > 0,
        may_shrink=draw(st.integers(0, 5)) > 0,
        is_fixed=draw(st.integers(0, 7)) == 0,
        throughputs=draw(st.sampled_from([(), (), ((1, 1.0), (2, 1.9)), ((1, 1.0), (2, 1.5), (4, 1.6))])),
    )


def _placed(cluster: ClusterSnapshot, draw: st.DrawFn) -> ClusterSnapshot:
    """Members put where they fit, here and there one left out or on a node that is closed or gone."""
    floor = NodeCapacity(cluster)
    found = []
    for each in cluster.groups:
        foot = floor.footprint_of(each.shape)
        places: list[str] = []
        for name in draw(st.lists(st.sampled_from([*NAMES, *NAMES, "", "gone"]), max_size=each.size + 2)):
            where = floor.node_positions.get(name, floor.unknown_node)
            fits = where < floor.unknown_node and floor.has_room(foot, where)
            if fits and len(places) < each.size:
                floor.allocate(foot, where)
            places.append(name if fits or name == "gone" else "")
        found.append(replace(each, replica_nodes=tuple(places)))
    return replace(cluster, groups=tuple(found))


@st.composite
def clusters(draw: st.DrawFn, largest: int = 6) -> ClusterSnapshot:
    """A small cluster in any state that it can come to."""
    drawn = draw(st.lists(shapes, min_size=1, max_size=3))
    groups = range(draw(st.integers(0, largest)))
    claims = tuple(
        PendingPods(
            key=f"web/{number}",
            shape=draw(st.sampled_from(drawn)),
            count=draw(st.integers(1, 3)),
            priority=draw(st.sampled_from([0, 0, 5])),
        )
        for number in range(draw(st.integers(0, 2)))
    )
    cluster = ClusterSnapshot(
        nodes=draw(nodes()),
        groups=tuple(draw(elastics(number, draw(st.sampled_from(drawn)))) for number in groups),
        pending_pods=claims,
        quotas=draw(st.sampled_from([{}, {}, {"a": {"cpu": 9000}}, {"a": {"pods": 4, "nvidia.com/gpu": 2}}])),
        max_load=draw(st.sampled_from([1.0, 1.0, 0.97, 0.8, 0.5])),
    )
    return _placed(cluster, draw)
