"""Trains under `dlrover-run` until it is told that it is enough; goes on after the last step that was saved."""

import time
from pathlib import Path

import torch  # type: ignore[import-not-found]
import torch.distributed as dist  # type: ignore[import-not-found]
from torch.nn.parallel import DistributedDataParallel  # type: ignore[import-not-found]

ENOUGH = Path("/mnt/enough")
SAVED = Path("/state/model.pt")
LEAST = 20
PAUSE = 0.2

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = 0
if SAVED.exists():
    saved = torch.load(SAVED)
    step = saved["step"]
    model.load_state_dict(saved["model"])
print(f"rank {rank} of {world} goes on after step {step}", flush=True)

is_over = torch.zeros(1)
while not is_over.item():
    step += 1
    features = torch.randn(64, 4)
    target = features @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(features), target)
    loss.backward()
    optimizer.step()
    if rank == 0:
        torch.save({"step": step, "model": model.state_dict()}, SAVED.with_suffix(".new"))
        SAVED.with_suffix(".new").replace(SAVED)
    is_over[0] = float(step >= LEAST and ENOUGH.exists())
    dist.broadcast(is_over, 0)  # all stop after the same step
    time.sleep(PAUSE)
print(f"rank {rank} of {world} trained to loss {loss.item():.2g} in {step} steps", flush=True)
