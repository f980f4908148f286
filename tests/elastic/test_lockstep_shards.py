"""Shards of ranks in lockstep: each record is in the model once per epoch, whatever happens to the ranks."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant import elastic
from pliant.elastic import Shards
from pliant.master.data.shards import DatasetSpec, permute_index

DATASETS = st.fixed_dictionaries(
    {
        "size": st.integers(1, 40),
        "shard_size": st.integers(1, 5),
        "epochs": st.integers(1, 3),
        "shuffle": st.none() | st.integers(0, 5),
    }
)


class Ranks:
    """Ranks that train in lockstep; the model is the list of the records that it contains."""

    def __init__(self, dataset: dict[str, Any], size: int) -> None:
        self._dataset = dataset
        self.model: list[tuple[int, int]] = []
        self.ranks: list[Shards] = []
        self.restart(size, [], None)
        self.checkpoint: tuple[list[tuple[int, int]], dict[str, Any] | None] = ([], None)

    def restart(self, size: int, model: list[tuple[int, int]], state: dict[str, Any] | None) -> None:
        """Start new processes from a checkpoint."""
        self.model = list(model)
        self.ranks = [Shards(**self._dataset) for _ in range(size)]
        for rank, shards in enumerate(self.ranks):
            if state is not None:
                shards.load_state_dict(state)
            shards.resize(rank, size)

    def step(self) -> bool:
        """Train one step; return False at the end."""
        parts = [next(iter(shards), None) for shards in self.ranks]
        assert len({part is None for part in parts}) == 1
        for part in parts:
            if part is not None:
                self.model += [(part.epoch, record) for record in part.records]
        for shards in self.ranks:
            shards.advance()
        return parts[0] is not None

    def save(self) -> None:
        states = [shards.state_dict() for shards in self.ranks]
        assert all(state == states[0] for state in states)
        self.checkpoint = (list(self.model), states[0])

    def resize(self, size: int) -> None:
        """Continue in the running processes; new ones take the position of a running one."""
        state = self.ranks[0].state_dict()
        self.ranks = (self.ranks + [Shards(**self._dataset) for _ in range(size)])[:size]
        for rank, shards in enumerate(self.ranks):
            shards.load_state_dict(state)
            shards.resize(rank, size)


EVENTS = st.lists(
    st.one_of(
        st.integers(1, 6).map(lambda count: ("steps", count)),
        st.just(("save", 0)),
        st.integers(1, 6).map(lambda size: ("resize", size)),
        st.integers(1, 6).map(lambda size: ("lose", size)),
    ),
    max_size=12,
)


@given(dataset=DATASETS, batch=st.none() | st.integers(1, 8), size=st.integers(1, 6), events=EVENTS)
def test_each_record_is_in_the_model_once_per_epoch_after_any_resizes_and_losses(
    dataset: dict[str, Any], batch: int | None, size: int, events: list[tuple[str, int]]
) -> None:
    if batch is not None:
        dataset = {**dataset, "global_batch": batch * dataset["shard_size"]}
    job = Ranks(dataset, size)
    for event, number in events:
        if event == "steps":
            for _ in range(number):
                job.step()
        elif event == "save":
            job.save()
        elif event == "resize":
            job.resize(number)
        else:
            job.restart(number, *job.checkpoint)
    while job.step():
        pass
    expected = ((epoch, record) for epoch in range(dataset["epochs"]) for record in range(dataset["size"]))
    assert Counter(job.model) == Counter(expected)


@given(dataset=DATASETS, batch=st.integers(1, 8), sizes=st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_the_batches_do_not_depend_on_the_number_of_ranks(
    dataset: dict[str, Any], batch: int, sizes: tuple[int, int]
) -> None:
    dataset = {**dataset, "global_batch": batch * dataset["shard_size"]}
    batches: list[list[list[int]]] = []
    for size in sizes:
        job, seen = Ranks(dataset, size), []
        while job.step():
            seen.append([record for _, record in job.model])
            job.model.clear()
        batches.append(seen)
    assert batches[0] == batches[1]


@given(count=st.integers(1, 300), epoch=st.integers(0, 3))
def test_the_order_is_the_one_of_the_master(count: int, epoch: int) -> None:
    spec = DatasetSpec(name="train", size=count, shard_size=1, epochs=epoch + 1, shuffle=7)
    master = [spec.shard_at(epoch * count + index).start for index in range(count)]
    assert master == [permute_index(index, count, f"7/{epoch}") for index in range(count)]
    shards = Shards(size=count, epochs=epoch + 1, shuffle=7)
    assert [shard.start for shard in shards][epoch * count :] == master


def test_a_shard_counts_when_it_is_advanced_or_the_next_one_is_requested() -> None:
    shards = Shards(size=6, shard_size=2)
    seen = []
    for shard in shards:
        seen.append(shard.start)
        if shard.start == 2:
            shards.advance()
            break
    assert (seen, shards.state_dict()["position"]) == ([0, 2], 2)


def test_a_step_that_was_left_is_repeated() -> None:
    shards = Shards(size=6, shard_size=2)
    for _ in shards:
        break
    assert shards.state_dict()["position"] == 0
    steps = iter(shards)
    assert next(steps).start == 0
    shards.resize(1, 2)  # a peer was lost in this step
    assert next(steps).start == 2


def test_a_state_that_may_contain_half_a_step_is_not_saved() -> None:
    shards = Shards(size=6)
    steps = iter(shards)
    next(steps)
    with pytest.raises(RuntimeError, match=r"call advance\(\) when the model contains the records"):
        shards.state_dict()


def test_a_loader_that_reads_ahead_counts_nothing() -> None:
    shards = Shards(size=5, global_batch=2)
    assert [list(shard.records) for shard in shards.upcoming()] == [[0, 1], [2, 3], [4]]
    shards.advance()
    assert [list(shard.records) for shard in shards.upcoming()] == [[2, 3], [4]]


def test_a_position_of_another_data_set_is_not_loaded() -> None:
    state = Shards(size=6, shuffle=1).state_dict()
    with pytest.raises(ValueError, match="shuffle: the checkpoint has 1, not 2"):
        Shards(size=6, shuffle=2).load_state_dict(state)


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ({"size": 0}, "size: must be at least 1, got 0"),
        ({"size": 5, "epochs": 0}, "epochs: must be at least 1, got 0"),
        ({"size": 5, "shard_size": 2, "global_batch": 3}, "global_batch: must be a multiple of shard_size 2, got 3"),
    ],
)
def test_a_wrong_number_is_an_error_that_names_it(numbers: dict[str, int], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Shards(**numbers)


def test_a_rank_must_be_below_the_world_size() -> None:
    with pytest.raises(ValueError, match="rank: must be at least 0 and below world_size 2, got 2"):
        Shards(size=5).resize(2, 2)


def test_shuffled_records_are_not_a_range() -> None:
    (shard,) = Shards(size=5, global_batch=5, shuffle=1)
    assert sorted(shard.records) == [0, 1, 2, 3, 4]
    with pytest.raises(AttributeError, match=r"use shard\.records"):
        _ = shard.start


def test_the_file_has_the_syntax_of_old_pythons_and_imports_only_the_standard_library() -> None:
    tree = ast.parse(Path(elastic.__file__).read_text(), feature_version=(3, 8))
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = [alias.name for node in imports for alias in node.names if isinstance(node, ast.Import)]
    names += [node.module or "" for node in imports if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in names} <= set(sys.stdlib_module_names)
