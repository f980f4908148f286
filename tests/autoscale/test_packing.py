"""Where pods fit, and that searching cleverly finds what searching everywhere would."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pliant.autoscale.model import Node, Shape
from pliant.autoscale.packing import Floor
from tests.autoscale.clusters import cluster, group, node, nodes, room, shape


def found(floor: Floor, wanted: Shape) -> str | None:
    where = floor.where(floor.footprint(wanted))
    return None if where is None else floor.names[where]


def fill(floor: Floor, wanted: Shape) -> list[str]:
    foot, went = floor.footprint(wanted), []
    while (where := floor.where(foot)) is not None:
        floor.take(foot, where)
        went.append(floor.names[where])
    return went


def test_the_fullest_node_with_room_comes_first() -> None:
    some = [node("empty"), node("half", taken=room(5)), node("full", taken=room(9))]
    assert found(Floor(cluster(some, group("a", shape(4), (0, 1)))), shape(4)) == "half"


def test_nobody_sits_on_a_node_with_devices_who_needs_none() -> None:
    some = [node("plain", 10), node("gpus", 10, gpus=8, taken=room(8))]
    floor = Floor(cluster(some, group("a", shape(2), (0, 9)), group("b", shape(1, gpus=1), (0, 9))))
    assert fill(floor, shape(2)) == ["plain"] * 5 + ["gpus"]


def test_devices_are_taken_where_few_are_left() -> None:
    some = [node("eight", gpus=8), node("two", gpus=8, taken=room(0, 0, 6))]
    floor = Floor(cluster(some, group("a", shape(gpus=2), (0, 9))))
    assert fill(floor, shape(gpus=2)) == ["two", *["eight"] * 4]


def test_members_take_room_where_they_sit_and_those_that_leave_take_none() -> None:
    one = group("a", shape(3), (0, 9), ["n0", "n0", "n0"])
    assert found(Floor(cluster(nodes(1), one)), shape(3)) is None
    assert found(Floor(cluster(nodes(1), replace(one, size=2))), shape(3)) == "n0"


def test_a_closed_node_takes_nobody_and_is_left_out_of_the_load() -> None:
    closed = replace(node("closed", 90), is_open=False)
    floor = Floor(cluster([closed, *nodes(1)], group("a", shape(4), (0, 9), ["closed"]), load=0.5))
    foot = floor.footprint(shape(4))
    assert found(floor, shape(4)) == "n0"
    assert floor.is_within_load(foot)
    floor.take(foot, floor.position["n0"])
    assert not floor.is_within_load(foot)
    assert found(floor, shape(4)) == "n0"


def test_a_pod_goes_only_where_it_may() -> None:
    wanted = shape(4, on=["n1", "gone"])
    assert fill(Floor(cluster(nodes(3), group("a", wanted, (0, 9)))), wanted) == ["n1", "n1"]


def test_what_a_pod_does_not_ask_for_may_be_overdrawn() -> None:
    short = node("n0", 10, taken=room(0, 5))
    floor = Floor(cluster([short], group("a", shape(1), (0, 1)), group("b", shape(1, 1), (0, 1))))
    assert (found(floor, shape(1)), found(floor, shape(1, 1))) == ("n0", None)


def test_a_debt_is_paid_before_there_is_room_again() -> None:
    one = group("a", shape(3), (0, 9), ["n0", "n0"])
    floor = Floor(cluster([node("n0", 10, taken=room(8))], one))
    foot = floor.footprint(shape(3))
    floor.give(foot, 0)
    assert found(floor, shape(3)) is None
    floor.give(foot, 0)
    floor.give(foot, 0)
    assert found(floor, shape(3)) == "n0"


def test_members_on_nodes_that_are_not_known_take_up_nothing() -> None:
    floor = Floor(cluster(nodes(1), group("a", shape(10), (0, 9), ["gone"])))
    assert found(floor, shape(10)) == "n0"


def test_no_nodes_have_no_room() -> None:
    assert found(Floor(cluster([], group("a", shape(1), (0, 1)))), shape(1)) is None


amounts = st.integers(0, 4)
shapes = st.builds(shape, amounts, amounts, amounts, st.none() | st.sets(st.sampled_from(["n0", "n1", "n99"])))
crowds = st.integers(0, 130).map(lambda number: nodes(number, 4, 4, 4))
steps = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60)


def somewhere(floor: Floor, wanted: Shape) -> bool:
    """Whether a node has room, by looking at each."""
    foot = floor.footprint(wanted)
    return any(floor.is_room(foot, each) and foot.open_to[each] for each in range(len(floor.names)))


@given(crowds, st.lists(shapes, min_size=4, max_size=4), steps)
def test_room_is_found_wherever_it_is(
    crowd: tuple[Node, ...], wanted: list[Shape], moves: list[tuple[int, bool]]
) -> None:
    floor = Floor(cluster(crowd, *(group(str(each), one, (0, 9)) for each, one in enumerate(wanted))))
    taken: list[tuple[Shape, int]] = []
    for which, is_leaving in moves:
        if is_leaving and taken:
            gone, where = taken.pop(which % len(taken))
            floor.give(floor.footprint(gone), where)
        for _ in range(10):
            there = floor.where(floor.footprint(wanted[which]))
            assert (there is not None) == somewhere(floor, wanted[which])
            if there is not None:
                assert floor.is_room(floor.footprint(wanted[which]), there)
                floor.take(floor.footprint(wanted[which]), there)
                taken.append((wanted[which], there))
