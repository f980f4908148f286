"""JAX: a checkpoint file with the arrays of a tree and the position in the data set.

state = load_checkpoint("state.npz", shards, state)
for shard in shards:
    state = train_step(state, data[shard.records])
    shards.advance()
    save_on_request("state.npz", shards, state)
"""

from __future__ import annotations

import json
import os
from typing import Any

import jax  # type: ignore[import-not-found]
import numpy as np  # type: ignore[import-not-found]

try:
    from pliant import elastic
except ImportError:  # a copy beside elastic.py
    import elastic  # type: ignore[import-not-found, no-redef]


def save_checkpoint(path: str, shards: elastic.Shards, state: Any) -> None:
    """Save the arrays of a tree, which are replicated on all processes, and the position."""
    leaves = jax.device_get(jax.tree_util.tree_leaves(state))
    arrays = {f"leaf{number}": leaf for number, leaf in enumerate(leaves)}
    with elastic.replace_file(path) as file:
        np.savez(file, shards=json.dumps(shards.state_dict()), **arrays)


def load_checkpoint(path: str, shards: elastic.Shards, state: Any) -> Any:
    """Return a tree like `state` with the saved arrays, and restore the position; `state` if there is no checkpoint."""
    if not os.path.exists(path):  # noqa: PTH110
        return state
    with np.load(path) as saved:
        shards.load_state_dict(json.loads(str(saved["shards"])))
        structure = jax.tree_util.tree_structure(state)
        return jax.tree_util.tree_unflatten(structure, [saved[f"leaf{i}"] for i in range(structure.num_leaves)])


def save_on_request(path: str, shards: elastic.Shards, state: Any) -> None:
    """Save and acknowledge if a checkpoint is requested of this replica; call it after `shards.advance()`."""
    if elastic.should_checkpoint():
        save_checkpoint(path, shards, state)
        elastic.acknowledge()
