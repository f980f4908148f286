"""Checkpoints with real frameworks: a program is terminated in the middle of training, and a new one continues."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.elastic.programs import program_environment
from tests.real_frameworks.environments import ENVIRONMENTS, missing

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]

JAX = """
import os, signal
import jax.numpy as jnp
from pliant import elastic
from pliant.adapters.elastic_jax import load_checkpoint, save_on_request

shards = elastic.shards("train", size=100, global_batch=8, epochs=2, shuffle=1)
state = load_checkpoint("state.npz", shards, {"records": jnp.zeros(100, int)})
for step, shard in enumerate(shards):
    state = {"records": state["records"].at[jnp.asarray(shard.records)].add(1)}
    shards.advance()
    if step == 4 and os.environ["TERMINATE"]:
        os.kill(os.getpid(), signal.SIGTERM)
    save_on_request("state.npz", shards, state)
print("complete", set(state["records"].tolist()))
"""
PYTORCH = """
import os, signal
import torch
from torch.utils.data import DataLoader, TensorDataset
from pliant import elastic
from pliant.adapters.elastic_pytorch import ElasticBatchSampler, load_checkpoint, save_on_request

class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("records", torch.zeros(100, dtype=torch.long))

model = Counts()
optimizer = torch.optim.Adam(torch.nn.Linear(1, 1).parameters())
shards = elastic.shards("train", size=100, global_batch=8, epochs=2, shuffle=1)
load_checkpoint("state.pt", shards, model=model, optimizer=optimizer)
step = 0
while shards.state_dict()["position"] < 200:
    loader = DataLoader(TensorDataset(torch.arange(100)), batch_sampler=ElasticBatchSampler(shards), num_workers=2)
    for (batch,) in loader:
        model.records[batch] += 1
        shards.advance()
        step += 1
        if step == 5 and os.environ["TERMINATE"]:
            os.kill(os.getpid(), signal.SIGTERM)
        save_on_request("state.pt", shards, model=model, optimizer=optimizer)
print("complete", set(model.records.tolist()))
"""


@pytest.mark.parametrize(("name", "script"), [("jax", JAX), ("pytorch", PYTORCH)])
def test_a_program_continues_where_a_terminated_one_has_saved_its_state(name: str, script: str, tmp_path: Path) -> None:
    environment = next(each for each in ENVIRONMENTS if each.name == name)
    if problem := missing(environment):
        pytest.skip(f"{name} is not installed: {problem}")
    python = [str(environment.folder / "bin" / "python3"), "-c", script]
    outcomes = []
    for terminate in ("yes", ""):
        variables = program_environment(TERMINATE=terminate)
        done = subprocess.run(python, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)
        outcomes.append((done.returncode, done.stdout.strip()))
    assert outcomes == [(143, ""), (0, "complete {2}")]
