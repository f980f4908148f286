"""Clusters of any kind, for properties: with closed and overdrawn nodes, gaps, quotas and bounds just changed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from pliant.autoscale.model import Claim, Cluster, Elastic, GroupKey, Node, Shape
from pliant.autoscale.packing import Floor
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
def nodes(draw: st.DrawFn) -> tuple[Node, ...]:
    """Up to five nodes, some of them closed or with more taken than they have."""
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        taken = room(draw(few), draw(few)) if draw(st.integers(0, 2)) == 0 else {}
        size = draw(st.integers(1, 12)), draw(st.integers(1, 12)), draw(st.sampled_from([0, 0, 4]))
        is_open = draw(st.integers(0, 5)) > 0
        found.append(Node(name=name, room={**room(*size), "pods": 12}, taken=taken, is_open=is_open))
    return tuple(found)


@st.composite
def elastics(draw: st.DrawFn, number: int, shape_: Shape) -> Elastic:
    """A group whose members wait, so far."""
    least = draw(few)
    most = least + draw(st.integers(0, 8))
    return Elastic(
        key=GroupKey(draw(st.sampled_from("ab")), "PaddleJob", f"job{number}", "trainer"),
        least=least,
        most=most,
        size=draw(st.integers(0, most + 1)),
        shape=shape_,
        priority=draw(st.sampled_from([0, 0, 0, 7])),
        since=float(draw(st.integers(0, 2))),
        may_grow=draw(st.integers(0, 5)) > 0,
        may_shrink=draw(st.integers(0, 5)) > 0,
        is_fixed=draw(st.integers(0, 7)) == 0,
        speeds=draw(st.sampled_from([(), (), ((1, 1.0), (2, 1.9)), ((1, 1.0), (2, 1.5), (4, 1.6))])),
    )


def _placed(cluster: Cluster, draw: st.DrawFn) -> Cluster:
    """Members put where they fit, here and there one left out or on a node that is closed or gone."""
    floor = Floor(cluster)
    found = []
    for each in cluster.elastics:
        foot = floor.footprint(each.shape)
        places: list[str] = []
        for name in draw(st.lists(st.sampled_from([*NAMES, *NAMES, "", "gone"]), max_size=each.size + 2)):
            where = floor.position.get(name, floor.nowhere)
            fits = where < floor.nowhere and floor.is_room(foot, where)
            if fits and len(places) < each.size:
                floor.take(foot, where)
            places.append(name if fits or name == "gone" else "")
        found.append(replace(each, places=tuple(places)))
    return replace(cluster, elastics=tuple(found))


@st.composite
def clusters(draw: st.DrawFn, largest: int = 6) -> Cluster:
    """A small cluster in any state that it can come to."""
    drawn = draw(st.lists(shapes, min_size=1, max_size=3))
    groups = range(draw(st.integers(0, largest)))
    claims = tuple(
        Claim(
            key=f"web/{number}",
            shape=draw(st.sampled_from(drawn)),
            number=draw(st.integers(1, 3)),
            priority=draw(st.sampled_from([0, 0, 5])),
        )
        for number in range(draw(st.integers(0, 2)))
    )
    cluster = Cluster(
        nodes=draw(nodes()),
        elastics=tuple(draw(elastics(number, draw(st.sampled_from(drawn)))) for number in groups),
        claims=claims,
        quotas=draw(st.sampled_from([{}, {}, {"a": {"cpu": 9000}}, {"a": {"pods": 4, "nvidia.com/gpu": 2}}])),
        load=draw(st.sampled_from([1.0, 1.0, 0.97, 0.8, 0.5])),
    )
    return _placed(cluster, draw)
