"""Workers that must know each other exactly."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pliant.master.membership import Membership, gone
from pliant.master.model import Node, NodeKey, NodeStatus
from pliant.master.rounds import Closing, Rounds
from tests.master.people import node, running

CLOSING = Closing(least=1, gather=2.0, patience=30.0)


def worker(number: int) -> NodeKey:
    return NodeKey("worker", number)


def rounds(nodes: tuple[Node, ...], closing: Closing = CLOSING) -> Rounds:
    found = Rounds("uid-1", closing)
    found.observe(nodes)
    return found


def join_all(found: Rounds, numbers: range | list[int], now: float = 0.0) -> None:
    for number in numbers:
        found.join(worker(number), f"10.0.0.{number}", now)


def closed(count: int, closing: Closing = CLOSING) -> Rounds:
    found = rounds(running(count), closing)
    join_all(found, range(count))
    assert found.close(0.0)
    return found


def test_a_round_closes_at_once_when_everybody_is_there() -> None:
    found = rounds(running(3))
    join_all(found, [2, 0])
    assert not found.close(1.0)
    join_all(found, [1], now=1.0)
    assert found.close(1.0)
    assert [seat.key.id for seat in found.seats] == [0, 1, 2]
    assert found.number == 1
    assert not found.is_open


def test_ranks_follow_those_of_members_and_chiefs_come_first() -> None:
    nodes = (node("worker-0", rank=1), node("worker-7", rank=0), node("chief-0"))
    found = rounds(nodes)
    for each in nodes:
        found.join(each.key, "", 0.0)
    assert found.close(0.0)
    assert [str(seat.key) for seat in found.seats] == ["chief-0", "worker-7", "worker-0"]
    assert found.seat_of(NodeKey("worker", 0)) == 2


def test_those_on_their_way_are_waited_for_a_little_and_those_that_run_longer() -> None:
    pending = rounds((*running(2), node("worker-2", NodeStatus.PENDING)))
    join_all(pending, range(2))
    assert not pending.close(1.9)
    assert pending.close(2.0)
    silent = rounds(running(3))
    join_all(silent, range(2))
    assert not silent.close(29.0)
    assert silent.close(30.0)
    assert len(silent.seats) == 2


def test_fewer_than_the_least_never_make_a_round() -> None:
    found = rounds(running(1), Closing(least=2, gather=0.0, patience=0.0))
    join_all(found, range(1))
    assert not found.close(50.0)


def test_who_no_longer_asks_is_not_waited_for_nor_counted_in() -> None:
    found = rounds(running(2))
    join_all(found, range(2))
    found.leave(worker(1))
    found.join(worker(0), "10.0.0.0", 60.0)
    assert found.close(61.0)
    assert [seat.key.id for seat in found.seats] == [0]


def test_a_newcomer_ends_the_round_for_the_others() -> None:
    found = closed(2)
    assert not found.is_over(worker(0), 1)
    found.observe(running(3))
    assert not found.is_over(worker(0), 1)  # it only runs: it may yet have to load its data
    join_all(found, [2], now=5.0)
    assert found.is_over(worker(0), 1)
    join_all(found, range(2), now=6.0)
    assert found.close(6.0)
    assert found.number == 2
    assert not found.is_over(worker(0), 2)


def test_a_loss_ends_the_round_and_a_success_does_not() -> None:
    for status, is_over in [(NodeStatus.SUCCEEDED, False), (NodeStatus.FAILED, True), (NodeStatus.LOST, True)]:
        found = closed(2)
        found.observe((node("worker-0"), node("worker-1", status)))
        assert found.is_over(worker(0), 1) is is_over
    found = closed(2)
    found.observe(running(1))
    assert found.is_over(worker(0), 1)
    join_all(found, [0], now=3.0)
    assert found.close(3.0)
    assert len(found.seats) == 1
    assert not found.is_open


def test_who_is_lost_while_the_round_forms_does_not_take_part() -> None:
    found = rounds(running(3))
    join_all(found, range(2))
    found.observe((node("worker-0"), node("worker-1", NodeStatus.FAILED), node("worker-2")))
    join_all(found, [2])
    assert found.close(0.0)
    assert [seat.key.id for seat in found.seats] == [0, 2]


def test_every_round_has_an_id_of_its_own_that_any_master_would_give_it() -> None:
    first, second = closed(2), closed(3)
    assert first.id == second.id
    join_all(first, range(2), now=1.0)
    assert first.close(1.0)
    assert first.id != second.id


def test_a_new_master_knows_the_round_and_sees_who_is_missing() -> None:
    saved = json.loads(json.dumps(closed(3).saved()))
    again = Rounds("uid-1", CLOSING)
    again.load(saved)
    again.observe(running(3))
    assert not again.is_over(worker(1), 1)
    another = Rounds("uid-1", CLOSING)
    another.load(saved)
    another.observe(running(2))
    assert another.is_over(worker(1), 1)


def test_a_round_that_was_not_saved_is_passed_when_a_member_speaks_of_it() -> None:
    found = rounds(running(2))
    assert found.is_over(worker(0), 7)
    join_all(found, range(2))
    assert found.close(0.0)
    assert found.number == 8


@given(st.lists(st.tuples(st.sampled_from(["join", "lose", "come", "close"]), st.integers(0, 4)), max_size=40))
def test_whoever_sits_in_a_round_that_is_not_over_is_there(acts: list[tuple[str, int]]) -> None:
    there, now = {0, 1}, 0.0
    found = rounds(running(2))
    for what, number in acts:
        now += 1.0
        if what == "join" and number in there:
            found.join(worker(number), "", now)
        elif what in ("lose", "come"):
            there = there - {number} if what == "lose" else there | {number}
            found.observe([node(f"worker-{each}") for each in there])
        elif what == "close":
            before, has_closed = found.number, found.close(now)
            assert found.number == before + has_closed
        if not found.is_open:
            assert {seat.key.id for seat in found.seats} <= there


def test_membership_counts_its_changes_and_is_ordered_by_rank() -> None:
    found = Membership()
    assert found.observe((node("worker-0", rank=1), node("worker-5", rank=0), node("ps-0")))
    assert not found.observe((node("ps-0"), node("worker-5", rank=0), node("worker-0", rank=1)))
    assert [(member.type, member.id) for member in found.members] == [("ps", 0), ("worker", 5), ("worker", 0)]
    assert found.generation == 1
    again = Membership()
    again.load(json.loads(json.dumps(found.saved())))
    assert not again.observe((node("ps-0"), node("worker-5", rank=0), node("worker-0", rank=1)))
    assert again.hear(5)
    assert again.generation == 6


def test_whoever_ended_or_vanished_is_gone() -> None:
    after = (node("worker-0"), node("worker-1", NodeStatus.FAILED), node("worker-2", NodeStatus.PENDING))
    assert gone([worker(number) for number in range(4)], after) == {worker(1), worker(3)}
