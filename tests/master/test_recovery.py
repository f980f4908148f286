"""Masters that die at any moment, with what was saved some time before: nothing is learned twice or never."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pliant.master.data.dispatcher import ShardDispatcher
from pliant.master.data.shards import DatasetSpec, MemberProcess
from pliant.master.model import MemberKey

SHARDS = 30


class Worker:
    """Does as the module for training programs does: it says again what it did since the master was last saved."""

    def __init__(self, number: int) -> None:
        self.holder = MemberProcess(MemberKey("worker", number), 1)
        self.holding: list[int] = []
        self.finished: list[int] = []
        self.learned: Counter[int] = Counter()

    def beat(self, work: ShardDispatcher) -> None:
        work.mark_shards_done({"train": self.finished}, self.holder)
        work.assign_reported_shards(self.holder, {"train": self.holding})
        work.stop_awaiting_reports({self.holder.member})

    def ask(self, work: ShardDispatcher, is_answered: bool) -> None:
        """Report what is done and ask for more; the answer may be lost."""
        for position in self.holding:
            self.learned[position] += 1
            self.finished.append(position)
        self.holding = []
        work.mark_shards_done({"train": self.finished}, self.holder)
        work.stop_awaiting_reports({self.holder.member})
        if not work.is_awaiting_reports:
            work.get_dataset("train").assign_reported_shards(self.holder, [], release_others=True)
            shard = work.take_shard("train", self.holder)
            if shard is not None and is_answered:
                self.holding = [shard.position]


class World:
    """A master and its workers."""

    def __init__(self) -> None:
        self.work = ShardDispatcher(60.0)
        self.work.register_dataset(DatasetSpec(name="train", size=SHARDS, shard_size=1))
        self.workers = [Worker(number) for number in range(3)]
        self.saved: Any = None
        self.save()

    def save(self) -> None:
        self.saved = json.loads(json.dumps(self.work.dump_state()))

    def crash(self) -> None:
        self.work = ShardDispatcher(60.0)
        self.work.load_state(self.saved)

    def act(self, what: str, worker: Worker) -> None:
        match what:
            case "ask" | "ask in vain":
                takers = len(self.work.shard_takers)
                worker.ask(self.work, what == "ask")
                if len(self.work.shard_takers) != takers:
                    self.save()  # that is urgent
            case "beat":
                worker.beat(self.work)
            case "save" if not self.work.is_awaiting_reports:
                self.save()
                for each in self.workers:
                    each.finished = []  # some seconds have passed
            case "crash":
                self.crash()

    def end(self) -> None:
        for worker in self.workers:
            worker.beat(self.work)
        for _ in range(2 * SHARDS):
            for worker in self.workers:
                worker.ask(self.work, is_answered=True)


ACTS = st.sampled_from(["ask", "ask", "ask", "ask in vain", "beat", "save", "crash"])


@given(st.lists(st.tuples(ACTS, st.integers(0, 2)), max_size=100))
def test_every_record_is_learned_exactly_once_while_no_worker_is_lost(acts: list[tuple[str, int]]) -> None:
    world = World()
    for what, number in acts:
        world.act(what, world.workers[number])
    world.end()
    learned = sum([worker.learned for worker in world.workers], Counter[int]())
    assert world.work.are_datasets_done
    assert learned == Counter(range(SHARDS))
