"""Workers that must know each other exactly."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pliant.master.members.membership import Membership, RendezvousRounds, RoundClosePolicy, find_ended_members
from pliant.master.model import JobMember, MemberKey, MemberStatus
from tests.master.people import node, running

CLOSING = RoundClosePolicy(min_workers=1, pending_wait_seconds=2.0, join_wait_seconds=30.0)


def worker(number: int) -> MemberKey:
    return MemberKey("worker", number)


def rounds(nodes: tuple[JobMember, ...], closing: RoundClosePolicy = CLOSING) -> RendezvousRounds:
    found = RendezvousRounds("uid-1", closing)
    found.update_members(nodes)
    return found


def join_all(found: RendezvousRounds, numbers: range | list[int], now: float = 0.0) -> None:
    for number in numbers:
        found.join_next_round(worker(number), f"10.0.0.{number}", now)


def closed(count: int, closing: RoundClosePolicy = CLOSING) -> RendezvousRounds:
    found = rounds(running(count), closing)
    join_all(found, range(count))
    assert found.close_round_if_ready(0.0)
    return found


def test_a_round_closes_at_once_when_everybody_is_there() -> None:
    found = rounds(running(3))
    join_all(found, [2, 0])
    assert not found.close_round_if_ready(1.0)
    join_all(found, [1], now=1.0)
    assert found.close_round_if_ready(1.0)
    assert [seat.key.id for seat in found.slots] == [0, 1, 2]
    assert found.round_number == 1
    assert not found.is_next_round_forming


def test_ranks_follow_those_of_members_and_chiefs_come_first() -> None:
    nodes = (node("worker-0", rank=1), node("worker-7", rank=0), node("chief-0"))
    found = rounds(nodes)
    for each in nodes:
        found.join_next_round(each.key, "", 0.0)
    assert found.close_round_if_ready(0.0)
    assert [str(seat.key) for seat in found.slots] == ["chief-0", "worker-7", "worker-0"]
    assert found.rank_in_closed_round(MemberKey("worker", 0)) == 2


def test_those_on_their_way_are_waited_for_a_little_and_those_that_run_longer() -> None:
    pending = rounds((*running(2), node("worker-2", MemberStatus.PENDING)))
    join_all(pending, range(2))
    assert not pending.close_round_if_ready(1.9)
    assert pending.close_round_if_ready(2.0)
    silent = rounds(running(3))
    join_all(silent, range(2))
    assert not silent.close_round_if_ready(29.0)
    assert silent.close_round_if_ready(30.0)
    assert len(silent.slots) == 2


def test_fewer_than_the_least_never_make_a_round() -> None:
    found = rounds(running(1), RoundClosePolicy(min_workers=2, pending_wait_seconds=0.0, join_wait_seconds=0.0))
    join_all(found, range(1))
    assert not found.close_round_if_ready(50.0)


def test_who_no_longer_asks_is_not_waited_for_nor_counted_in() -> None:
    found = rounds(running(2))
    join_all(found, range(2))
    found.cancel_join(worker(1))
    found.join_next_round(worker(0), "10.0.0.0", 60.0)
    assert found.close_round_if_ready(61.0)
    assert [seat.key.id for seat in found.slots] == [0]


def test_a_newcomer_ends_the_round_for_the_others() -> None:
    found = closed(2)
    assert not found.must_rejoin(worker(0), 1)
    found.update_members(running(3))
    assert not found.must_rejoin(worker(0), 1)  # it only runs: it may yet have to load its data
    join_all(found, [2], now=5.0)
    assert found.must_rejoin(worker(0), 1)
    join_all(found, range(2), now=6.0)
    assert found.close_round_if_ready(6.0)
    assert found.round_number == 2
    assert not found.must_rejoin(worker(0), 2)


def test_a_loss_ends_the_round_and_a_success_does_not() -> None:
    for status, is_over in [(MemberStatus.SUCCEEDED, False), (MemberStatus.FAILED, True), (MemberStatus.LOST, True)]:
        found = closed(2)
        found.update_members((node("worker-0"), node("worker-1", status)))
        assert found.must_rejoin(worker(0), 1) is is_over
    found = closed(2)
    found.update_members(running(1))
    assert found.must_rejoin(worker(0), 1)
    join_all(found, [0], now=3.0)
    assert found.close_round_if_ready(3.0)
    assert len(found.slots) == 1
    assert not found.is_next_round_forming


def test_who_is_lost_while_the_round_forms_does_not_take_part() -> None:
    found = rounds(running(3))
    join_all(found, range(2))
    found.update_members((node("worker-0"), node("worker-1", MemberStatus.FAILED), node("worker-2")))
    join_all(found, [2])
    assert found.close_round_if_ready(0.0)
    assert [seat.key.id for seat in found.slots] == [0, 2]


def test_every_round_has_an_id_of_its_own_that_any_master_would_give_it() -> None:
    first, second = closed(2), closed(3)
    assert first.closed_round_id == second.closed_round_id
    join_all(first, range(2), now=1.0)
    assert first.close_round_if_ready(1.0)
    assert first.closed_round_id != second.closed_round_id


def test_a_new_master_knows_the_round_and_sees_who_is_missing() -> None:
    saved = json.loads(json.dumps(closed(3).dump_state()))
    again = RendezvousRounds("uid-1", CLOSING)
    again.load_state(saved)
    again.update_members(running(3))
    assert not again.must_rejoin(worker(1), 1)
    another = RendezvousRounds("uid-1", CLOSING)
    another.load_state(saved)
    another.update_members(running(2))
    assert another.must_rejoin(worker(1), 1)


def test_a_round_that_was_not_saved_is_passed_when_a_member_speaks_of_it() -> None:
    found = rounds(running(2))
    assert found.must_rejoin(worker(0), 7)
    join_all(found, range(2))
    assert found.close_round_if_ready(0.0)
    assert found.round_number == 8


@given(st.lists(st.tuples(st.sampled_from(["join", "lose", "come", "close"]), st.integers(0, 4)), max_size=40))
def test_whoever_sits_in_a_round_that_is_not_over_is_there(acts: list[tuple[str, int]]) -> None:
    there, now = {0, 1}, 0.0
    found = rounds(running(2))
    for what, number in acts:
        now += 1.0
        if what == "join" and number in there:
            found.join_next_round(worker(number), "", now)
        elif what in ("lose", "come"):
            there = there - {number} if what == "lose" else there | {number}
            found.update_members([node(f"worker-{each}") for each in there])
        elif what == "close":
            before, has_closed = found.round_number, found.close_round_if_ready(now)
            assert found.round_number == before + has_closed
        if not found.is_next_round_forming:
            assert {seat.key.id for seat in found.slots} <= there


def test_membership_counts_its_changes_and_is_ordered_by_rank() -> None:
    found = Membership()
    assert found.update_members((node("worker-0", rank=1), node("worker-5", rank=0), node("ps-0")))
    assert not found.update_members((node("ps-0"), node("worker-5", rank=0), node("worker-0", rank=1)))
    assert [(member.type, member.id) for member in found.members] == [("ps", 0), ("worker", 5), ("worker", 0)]
    assert found.generation == 1
    again = Membership()
    again.load_state(json.loads(json.dumps(found.dump_state())))
    assert not again.update_members((node("ps-0"), node("worker-5", rank=0), node("worker-0", rank=1)))
    assert again.advance_past_reported_generation(5)
    assert again.generation == 6


def test_whoever_ended_or_vanished_is_gone() -> None:
    after = (node("worker-0"), node("worker-1", MemberStatus.FAILED), node("worker-2", MemberStatus.PENDING))
    assert find_ended_members([worker(number) for number in range(4)], after) == {worker(1), worker(3)}
