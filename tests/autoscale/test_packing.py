"""Where pods fit, and that searching cleverly finds what searching everywhere would."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pliant.autoscale.model import NodeResources, PodShape
from pliant.autoscale.planning.capacity import NodeCapacity
from tests.autoscale.clusters import cluster, group, node, nodes, room, shape


def found(floor: NodeCapacity, wanted: PodShape) -> str | None:
    where = floor.find_node(floor.footprint_of(wanted))
    return None if where is None else floor.node_names[where]


def fill(floor: NodeCapacity, wanted: PodShape) -> list[str]:
    foot, went = floor.footprint_of(wanted), []
    while (where := floor.find_node(foot)) is not None:
        floor.allocate(foot, where)
        went.append(floor.node_names[where])
    return went


def test_the_fullest_node_with_room_comes_first() -> None:
    some = [node("empty"), node("half", taken=room(5)), node("full", taken=room(9))]
    assert found(NodeCapacity(cluster(some, group("a", shape(4), (0, 1)))), shape(4)) == "half"


def test_nobody_sits_on_a_node_with_devices_who_needs_none() -> None:
    some = [node("plain", 10), node("gpus", 10, gpus=8, taken=room(8))]
    floor = NodeCapacity(cluster(some, group("a", shape(2), (0, 9)), group("b", shape(1, gpus=1), (0, 9))))
    assert fill(floor, shape(2)) == ["plain"] * 5 + ["gpus"]


def test_devices_are_taken_where_few_are_left() -> None:
    some = [node("eight", gpus=8), node("two", gpus=8, taken=room(0, 0, 6))]
    floor = NodeCapacity(cluster(some, group("a", shape(gpus=2), (0, 9))))
    assert fill(floor, shape(gpus=2)) == ["two", *["eight"] * 4]


def test_members_take_room_where_they_sit_and_those_that_leave_take_none() -> None:
    one = group("a", shape(3), (0, 9), ["n0", "n0", "n0"])
    assert found(NodeCapacity(cluster(nodes(1), one)), shape(3)) is None
    assert found(NodeCapacity(cluster(nodes(1), replace(one, size=2))), shape(3)) == "n0"


def test_a_closed_node_takes_nobody_and_is_left_out_of_the_load() -> None:
    closed = replace(node("closed", 90), is_schedulable=False)
    floor = NodeCapacity(cluster([closed, *nodes(1)], group("a", shape(4), (0, 9), ["closed"]), max_load=0.5))
    foot = floor.footprint_of(shape(4))
    assert found(floor, shape(4)) == "n0"
    assert floor.fits_load_limit(foot)
    floor.allocate(foot, floor.node_positions["n0"])
    assert not floor.fits_load_limit(foot)
    assert found(floor, shape(4)) == "n0"


def test_a_pod_goes_only_where_it_may() -> None:
    wanted = shape(4, on=["n1", "gone"])
    assert fill(NodeCapacity(cluster(nodes(3), group("a", wanted, (0, 9)))), wanted) == ["n1", "n1"]


def test_what_a_pod_does_not_ask_for_may_be_overdrawn() -> None:
    short = node("n0", 10, taken=room(0, 5))
    floor = NodeCapacity(cluster([short], group("a", shape(1), (0, 1)), group("b", shape(1, 1), (0, 1))))
    assert (found(floor, shape(1)), found(floor, shape(1, 1))) == ("n0", None)


def test_a_debt_is_paid_before_there_is_room_again() -> None:
    one = group("a", shape(3), (0, 9), ["n0", "n0"])
    floor = NodeCapacity(cluster([node("n0", 10, taken=room(8))], one))
    foot = floor.footprint_of(shape(3))
    floor.release(foot, 0)
    assert found(floor, shape(3)) is None
    floor.release(foot, 0)
    floor.release(foot, 0)
    assert found(floor, shape(3)) == "n0"


def test_members_on_nodes_that_are_not_known_take_up_nothing() -> None:
    floor = NodeCapacity(cluster(nodes(1), group("a", shape(10), (0, 9), ["gone"])))
    assert found(floor, shape(10)) == "n0"


def test_no_nodes_have_no_room() -> None:
    assert found(NodeCapacity(cluster([], group("a", shape(1), (0, 1)))), shape(1)) is None


amounts = st.integers(0, 4)
shapes = st.builds(shape, amounts, amounts, amounts, st.none() | st.sets(st.sampled_from(["n0", "n1", "n99"])))
crowds = st.integers(0, 130).map(lambda number: nodes(number, 4, 4, 4))
steps = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60)


def somewhere(floor: NodeCapacity, wanted: PodShape) -> bool:
    """Whether a node has room, by looking at each."""
    foot = floor.footprint_of(wanted)
    return any(floor.has_room(foot, each) and foot.allowed_nodes[each] for each in range(len(floor.node_names)))


@given(crowds, st.lists(shapes, min_size=4, max_size=4), steps)
def test_room_is_found_wherever_it_is(
    crowd: tuple[NodeResources, ...], wanted: list[PodShape], moves: list[tuple[int, bool]]
) -> None:
    floor = NodeCapacity(cluster(crowd, *(group(str(each), one, (0, 9)) for each, one in enumerate(wanted))))
    taken: list[tuple[PodShape, int]] = []
    for which, is_leaving in moves:
        if is_leaving and taken:
            gone, where = taken.pop(which % len(taken))
            floor.release(floor.footprint_of(gone), where)
        for _ in range(10):
            there = floor.find_node(floor.footprint_of(wanted[which]))
            assert (there is not None) == somewhere(floor, wanted[which])
            if there is not None:
                assert floor.has_room(floor.footprint_of(wanted[which]), there)
                floor.allocate(floor.footprint_of(wanted[which]), there)
                taken.append((wanted[which], there))
