"""Every record is learned, whoever comes and goes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.errors import InvalidSpec
from pliant.master.data.dispatcher import ShardDispatcher
from pliant.master.data.shards import DatasetSpec, DataShard, MemberProcess, ShardedDataset, permute_index
from pliant.master.model import MemberKey

WORKERS = [MemberProcess(MemberKey("worker", number), 1) for number in range(4)]


def data_set(size: int = 100, shard_size: int = 10, **more: Any) -> ShardedDataset:
    return ShardedDataset(DatasetSpec(name="train", size=size, shard_size=shard_size, **more))


def learn_all(data: ShardedDataset, holder: MemberProcess) -> list[DataShard]:
    learned: list[DataShard] = []
    while (shard := data.take_next(holder)) is not None:
        learned.append(shard)
        data.mark_shard_done(shard.position, holder)
    return learned


@given(st.integers(1, 300), st.text(max_size=5))
def test_a_shuffled_order_has_every_place_once(count: int, seed: str) -> None:
    assert sorted(permute_index(place, count, seed) for place in range(count)) == list(range(count))


def test_a_shuffled_order_is_drawn_anew_for_each_epoch() -> None:
    shards = learn_all(data_set(size=64, shard_size=1, epochs=2, shuffle=7), WORKERS[0])
    first, second = [s.start for s in shards[:64]], [s.start for s in shards[64:]]
    assert sorted(first) == sorted(second) == list(range(64))
    assert first != second
    assert first != sorted(first)


@given(
    size=st.integers(1, 60),
    shard_size=st.integers(1, 20),
    epochs=st.integers(1, 3),
    shuffle=st.none() | st.integers(0, 9),
)
def test_every_record_is_learned_once_in_an_epoch(size: int, shard_size: int, epochs: int, shuffle: int | None) -> None:
    data = data_set(size, shard_size, epochs=epochs, shuffle=shuffle)
    shards = learn_all(data, WORKERS[0])
    learned = Counter((s.epoch, record) for s in shards for record in range(s.start, s.end))
    assert learned == Counter((epoch, record) for epoch in range(epochs) for record in range(size))
    assert data.is_done
    assert data.available_count == data.assigned_count == 0
    assert not list(data.holders())


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["take", "take", "finish", "finish", "late", "fail", "lose", "reload"]), st.integers(0, 3)
    ),
    max_size=80,
)


class Play:
    """Workers that do what a list of acts says, and then finish the work."""

    def __init__(self, shards: int) -> None:
        self.data = data_set(size=shards, shard_size=1)
        self.hands: dict[MemberProcess, list[int]] = {worker: [] for worker in WORKERS}
        self.learned: Counter[int] = Counter()
        self.last_learner: dict[int, MemberProcess] = {}
        self.counted = 0
        self.lost = 0

    def act(self, what: str, worker: MemberProcess) -> None:
        hand = self.hands[worker]
        match what:
            case "take" if (shard := self.data.take_next(worker)) is not None:
                hand.append(shard.position)
            case "finish" if hand:
                self.finish(hand.pop(0), worker)
            case "late" if self.learned:
                self.counted += self.data.mark_shard_done(min(self.learned), self.last_learner[min(self.learned)])
            case "fail" if hand:
                self.data.return_failed_shard(hand.pop(), worker)
            case "lose":
                self.lost += self.data.release_shards_of_holders([worker])
            case "reload":
                self.data = ShardedDataset.from_state(json.loads(json.dumps(self.data.dump_state())))

    def finish(self, position: int, worker: MemberProcess) -> None:
        self.learned[position] += 1
        self.last_learner[position] = worker
        self.counted += self.data.mark_shard_done(position, worker)

    def end(self) -> None:
        for worker in WORKERS:
            while self.hands[worker]:
                self.act("finish", worker)
        while (shard := self.data.take_next(WORKERS[0])) is not None:
            self.finish(shard.position, WORKERS[0])


@given(st.integers(1, 30), ACTS)
def test_whatever_happens_every_record_is_learned_and_counted_once(shards: int, acts: list[tuple[str, int]]) -> None:
    play = Play(shards)
    for what, who in acts:
        play.act(what, WORKERS[who])
        assert play.data.done_count + play.data.assigned_count + play.data.available_count == shards
        assert play.data.done_count == play.counted
    play.end()
    assert play.data.is_done
    assert play.counted == shards
    assert set(play.learned) == set(range(shards))
    if not play.lost:
        assert set(play.learned.values()) == {1}


def test_shards_of_the_lost_come_next_and_in_order() -> None:
    data = data_set()
    for _ in range(3):
        data.take_next(WORKERS[0])
    data.take_next(WORKERS[1])
    assert data.release_shards_of_holders([WORKERS[0]]) == 3
    assert [shard.position for shard in learn_all(data, WORKERS[2])] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert data.assigned_count == 1


def test_a_shard_that_failed_comes_after_those_of_the_lost() -> None:
    data = data_set()
    data.take_next(WORKERS[0])
    data.take_next(WORKERS[1])
    assert data.return_failed_shard(0, WORKERS[0])
    data.release_shards_of_holders([WORKERS[1]])
    assert [shard.position for shard in learn_all(data, WORKERS[2])][:3] == [1, 0, 2]


def test_a_report_about_a_shard_that_somebody_else_has_counts_for_nothing() -> None:
    data = data_set()
    data.take_next(WORKERS[0])
    assert data.mark_shard_done(0, WORKERS[1]) == 0
    data.release_shards_of_holders([WORKERS[0]])
    data.take_next(WORKERS[1])
    assert data.mark_shard_done(0, WORKERS[0]) == 0
    assert (data.done_count, data.assigned_count) == (0, 1)
    assert data.mark_shard_done(0, WORKERS[1]) == 10
    assert data.mark_shard_done(0, WORKERS[1]) == 0
    assert data.done_count == 1


def test_a_late_report_about_a_shard_that_nobody_else_has_counts_once() -> None:
    data = data_set()
    data.take_next(WORKERS[0])
    data.release_shards_of_holders([WORKERS[0]])
    assert data.mark_shard_done(0, WORKERS[1]) == 0
    assert data.mark_shard_done(0, WORKERS[0]) == 10
    assert data.mark_shard_done(0, WORKERS[0]) == 0
    assert (data.done_count, data.assigned_count) == (1, 0)


def test_shards_that_nobody_was_given_are_neither_claimed_nor_done() -> None:
    data = data_set()
    data.take_next(WORKERS[0])
    data.release_shards_of_holders([WORKERS[0]])
    assert sum(data.mark_shard_done(position, WORKERS[1]) for position in range(10)) == 0
    data.assign_reported_shards(WORKERS[1], range(10))
    assert (data.done_count, data.assigned_count, data.available_count) == (0, 0, 10)


def test_a_new_master_believes_reports_it_cannot_check_only_while_members_of_the_last_one_may_send_them() -> None:
    work = ShardDispatcher(lease_seconds=60.0)
    work.register_dataset(DatasetSpec(name="train", size=100, shard_size=10))
    again = ShardDispatcher(lease_seconds=60.0)
    again.load_state(json.loads(json.dumps(work.dump_state())))
    assert again.mark_shards_done({"train": [0]}, WORKERS[0]) == 10
    again.end_recovery()
    assert again.mark_shards_done({"train": [1]}, WORKERS[0]) == 0
    again.assign_reported_shards(WORKERS[0], {"train": [2]})
    assert again.get_dataset("train").assigned_count == 0


def test_a_late_word_of_failure_does_not_take_a_shard_from_somebody_else() -> None:
    data = data_set()
    data.take_next(WORKERS[0])
    data.release_shards_of_holders([WORKERS[0]])
    data.take_next(WORKERS[1])
    assert not data.return_failed_shard(0, WORKERS[0])
    assert data.assigned_count == 1


def test_a_new_master_keeps_the_order_of_what_came_back() -> None:
    data = data_set()
    for _ in range(4):
        data.take_next(WORKERS[0])
    for position in (2, 0, 1):
        data.return_failed_shard(position, WORKERS[0])
    again = ShardedDataset.from_state(data.dump_state())
    assert [shard.position for shard in learn_all(again, WORKERS[1])][:4] == [2, 0, 1, 4]


def test_a_process_that_falls_silent_loses_its_shards_and_one_that_speaks_does_not() -> None:
    work = ShardDispatcher(lease_seconds=60.0)
    work.register_dataset(DatasetSpec(name="train", size=100, shard_size=10))
    data = work.get_dataset("train")
    for worker in WORKERS[:3]:
        work.take_shard("train", worker)
        work.renew_lease(worker, 0.0)
    work.renew_lease(WORKERS[1], 50.0)
    assert work.expire_leases(60.0) == 0
    assert work.expire_leases(61.0) == 2
    assert list(data.holders()) == [WORKERS[1]]
    assert work.release_shards_of_members({WORKERS[1].member}) == 1
    assert (work.unassigned_shard_count, work.returned_count) == (10, 3)


def test_a_new_master_gives_holders_time_to_speak() -> None:
    work = ShardDispatcher(lease_seconds=60.0)
    work.register_dataset(DatasetSpec(name="train", size=100, shard_size=10))
    work.take_shard("train", WORKERS[0])
    again = ShardDispatcher(lease_seconds=60.0)
    again.load_state(json.loads(json.dumps(work.dump_state())))
    assert again.expire_leases(1000.0) == 0
    assert again.expire_leases(1061.0) == 1


def test_shards_given_out_after_the_last_save_are_not_given_out_twice_when_their_holders_speak_first() -> None:
    data = data_set()
    saved = data.dump_state()
    for worker in WORKERS:
        data.take_next(worker)
    forgetful = ShardedDataset.from_state(saved)
    forgetful.assign_reported_shards(WORKERS[2], [2])
    assert forgetful.mark_shard_done(3, WORKERS[3]) == 10
    assert [shard.position for shard in learn_all(forgetful, WORKERS[0])] == [0, 1, 4, 5, 6, 7, 8, 9]
    assert forgetful.assigned_count == 1


def test_a_shard_whose_holder_never_heard_of_it_goes_back() -> None:
    data = data_set()
    data.take_next(WORKERS[0])
    assert data.assign_reported_shards(WORKERS[0], [], release_others=True) == 1
    assert data.take_next(WORKERS[0]) == DataShard(0, 0, 0, 10)


def test_a_large_data_set_in_many_hands_is_remembered_in_a_few_bytes_each() -> None:
    data = data_set(size=10**12, shard_size=100, epochs=1000, shuffle=1)
    for number in range(1000):
        data.take_next(MemberProcess(MemberKey("worker", number), 4711))
    assert len(json.dumps(data.dump_state())) < 45_000


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"size": 0}, "size: must be at least 1, got 0"),
        ({"shard_size": -1}, "shard_size: must be at least 1, got -1"),
        ({"epochs": 0}, "epochs: must be at least 1, got 0"),
        ({"size": 10**18, "shard_size": 1}, "shard_size: must be larger: 10+ shards are too many"),
    ],
)
def test_nonsense_is_refused_with_its_field(wrong: dict[str, int], words: str) -> None:
    with pytest.raises(InvalidSpec, match=words):
        data_set(**wrong)
    with pytest.raises(InvalidSpec, match="name: 'a/b'"):
        DatasetSpec(name="a/b", size=1, shard_size=1)


def test_a_position_that_nobody_can_have_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="shard 10 of dataset train is not assigned"):
        data_set().mark_shard_done(10, WORKERS[0])
