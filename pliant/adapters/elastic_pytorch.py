"""PyTorch: a checkpoint file with the position in the data set, and a batch sampler that continues there.

    load_checkpoint("state.pt", shards, model=model, optimizer=optimizer)
    for batch in DataLoader(data, batch_sampler=ElasticBatchSampler(shards)):
        train(batch)
        shards.advance()
        save_on_request("state.pt", shards, model=model, optimizer=optimizer)

All ranks of data-parallel training have the same state, so the file of any of them is a checkpoint of the job.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch  # type: ignore[import-not-found]

try:
    from pliant import elastic
except ImportError:  # a copy beside elastic.py
    import elastic  # type: ignore[import-not-found, no-redef]


def save_checkpoint(path: str, shards: elastic.Shards, **parts: Any) -> None:
    """Save the state of the parts (model, optimizer, …) and the position."""
    states = {name: part.state_dict() for name, part in {"shards": shards, **parts}.items()}
    with elastic.replace_file(path) as file:
        torch.save(states, file)


def load_checkpoint(path: str, shards: elastic.Shards, **parts: Any) -> bool:
    """Restore the state of the parts and the position; return False if there is no checkpoint."""
    if not os.path.exists(path):  # noqa: PTH110
        return False
    states = torch.load(path, map_location="cpu")
    for name, part in {"shards": shards, **parts}.items():
        part.load_state_dict(states[name])
    return True


def save_on_request(path: str, shards: elastic.Shards, **parts: Any) -> None:
    """Save and acknowledge if a checkpoint is requested of this replica; call it after `shards.advance()`."""
    if elastic.should_checkpoint():
        save_checkpoint(path, shards, **parts)
        elastic.acknowledge()


class ElasticBatchSampler:
    """The batches of this rank from the current position to the end of the epoch."""

    def __init__(self, shards: elastic.Shards) -> None:
        self._shards = shards

    def __iter__(self) -> Iterator[list[int]]:
        epoch = None
        for shard in self._shards.upcoming():
            if epoch not in (None, shard.epoch):
                return
            epoch = shard.epoch
            yield list(shard.records)
